// A long text or the bytes of a file, which Python fetches at a port of this machine.
//
// py4j sends a text above 8 kB in pieces. The second piece waits 40 ms for an acknowledgement. py4j also sends bytes as
// text, at 5 to 14 MB per second. Both apply to everything that the JVM sends: answers, and calls to Python.
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FileStatus;

public class Served {
  static final int PATIENCE = 30000; // milliseconds
  static final int MOST = 6000; // bytes that py4j sends in one piece, together with its own bytes
  static final String ITEM = "\u0001", PART = "\u0002";

  static final int ESCAPE = 3; // a control character

  final byte[] data;

  public Served(byte[] data) { this.data = data; }

  // A name without separators. Each separator, and the escape character, is replaced by the escape character and a
  // digit.
  public static String item(String name) {
    if (name.indexOf(1) < 0 && name.indexOf(2) < 0 && name.indexOf(ESCAPE) < 0) return name;
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < name.length(); i++) {
      char letter = name.charAt(i);
      if (letter >= 1 && letter <= ESCAPE) text.append((char) ESCAPE).append((int) letter);
      else text.append(letter);
    }
    return text.toString();
  }

  // Returns a short text unchanged, and a Served object for a long text.
  public static Object text(String text) {
    if (text.length() <= MOST / 3) return text; // a letter takes at most 3 bytes
    byte[] data = text.getBytes(java.nio.charset.StandardCharsets.UTF_8);
    return data.length <= MOST ? (Object) text : new Served(data);
  }

  // Returns the port and the length. The first client that sends the password gets the length and the bytes.
  public String at(final byte[] password) throws java.io.IOException {
    final java.net.ServerSocket door = new java.net.ServerSocket(0, 1, java.net.InetAddress.getByName("127.0.0.1"));
    Thread server = new Thread("orcidx serves bytes") {
      public void run() {
        try {
          give(door, data, password);
        } catch (java.io.IOException error) {
          // the client has disconnected, so it does not get the bytes
        }
      }
    };
    server.setDaemon(true);
    server.start();
    return door.getLocalPort() + " " + data.length;
  }

  static void give(java.net.ServerSocket door, byte[] data, byte[] password) throws java.io.IOException {
    java.net.Socket caller = null;
    try {
      door.setSoTimeout(PATIENCE);
      caller = door.accept();
      caller.setSoTimeout(PATIENCE);
      byte[] said = caller.getInputStream().readNBytes(password.length);
      if (!java.security.MessageDigest.isEqual(said, password)) return;
      java.io.DataOutputStream answer = new java.io.DataOutputStream(caller.getOutputStream());
      answer.writeInt(data.length);
      answer.write(data);
    } finally {
      if (caller != null) caller.close();
      door.close();
    }
  }

  // A listing in columns: paths in Hadoop's spelling, bytes, milliseconds, tags of object stores.
  public static class Columns {
    final StringBuilder paths = new StringBuilder(), sizes = new StringBuilder(), times = new StringBuilder();
    final StringBuilder tags = new StringBuilder();
    boolean tagged = false, first = true;

    public void add(FileStatus file) {
      if (!first) {
        paths.append(ITEM);
        sizes.append(',');
        times.append(',');
        tags.append(ITEM);
      }
      first = false;
      paths.append(item(file.getPath().toString()));
      sizes.append(file.getLen());
      times.append(file.getModificationTime());
      String tag = file instanceof EtagSource ? ((EtagSource) file).getEtag() : null;
      if (tag != null) {
        tagged = true;
        tags.append(item(tag));
      }
    }

    public Object answer() {
      if (first) return "";
      return Served.text(paths + PART + sizes + PART + times + PART + (tagged ? tags.toString() : ""));
    }
  }
}
