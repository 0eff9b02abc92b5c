// The operations on a session's Hadoop file systems that orcidx needs. Each operation is one call to the JVM.
//
// Janino, which Spark ships, compiles this class. Listings are returned as one text, because an iterator over py4j
// takes some 8 ms per file.
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.security.UserGroupInformation;

public class HadoopFiles {
  static final String ITEM = "\u0001", PART = "\u0002";
  static final String CONDITIONAL = "fs.option.create.conditional.overwrite";

  final Configuration conf;

  public HadoopFiles(Configuration conf) { this.conf = conf; }

  static FileSystem of(Path path, Configuration conf) throws java.io.IOException { return path.getFileSystem(conf); }

  // Whether Hadoop has a file system for the scheme. "" is the scheme of plain paths.
  public boolean knows(String scheme) {
    try {
      FileSystem.getFileSystemClass(scheme, conf);
      return true;
    } catch (java.io.IOException error) {
      return false;
    } catch (RuntimeException error) {
      return false;
    } catch (LinkageError error) {
      return false;
    }
  }

  public String qualified(String url) throws java.io.IOException {
    Path path = new Path(url);
    return of(path, conf).makeQualified(path).toString();
  }

  static void line(StringBuilder text, FileStatus file) {
    String etag = file instanceof EtagSource ? ((EtagSource) file).getEtag() : null;
    if (text.length() > 0) text.append(ITEM);
    text.append(Served.item(file.getPath().toString())).append(PART).append(file.getLen()).append(PART)
      .append(file.getModificationTime()).append(PART).append(etag == null ? "" : Served.item(etag));
  }

  // Returns the files that Spark has listed. The text of a status is not used, because in viewfs this text also has the
  // path in the file system behind viewfs.
  public Object columns(scala.collection.Seq files) {
    Served.Columns columns = new Served.Columns();
    scala.collection.Iterator each = files.iterator();
    while (each.hasNext()) columns.add((FileStatus) each.next());
    return columns.answer();
  }

  // Returns every file below a directory or prefix, and "" if there is no file.
  public Object list(String url) throws java.io.IOException {
    StringBuilder text = new StringBuilder();
    Path path = new Path(url);
    try {
      RemoteIterator files = of(path, conf).listFiles(path, true);
      while (files.hasNext()) line(text, (FileStatus) files.next());
    } catch (java.io.FileNotFoundException error) {
      return "";
    }
    return Served.text(text.toString());
  }

  // Returns the status of one file, "" if the file does not exist, and "/" for a directory.
  public String status(String url) throws java.io.IOException {
    Path path = new Path(url);
    try {
      FileStatus found = of(path, conf).getFileStatus(path);
      if (found.isDirectory()) return "/";
      StringBuilder text = new StringBuilder();
      line(text, found);
      return text.toString();
    } catch (java.io.FileNotFoundException error) {
      return "";
    }
  }

  // Opens a file. If its size is known, s3a does not request the file's status again. A size of -1 means unknown.
  static FSDataInputStream opened(Path path, Configuration conf, long size) throws java.io.IOException {
    FileSystem files = of(path, conf);
    if (size < 0) return files.open(path);
    FutureDataInputStreamBuilder builder = files.openFile(path);
    builder.opt("fs.option.openfile.length", String.valueOf(size));
    try {
      return (FSDataInputStream) builder.build().get();
    } catch (InterruptedException error) {
      throw new java.io.InterruptedIOException(String.valueOf(error.getMessage()));
    } catch (java.util.concurrent.ExecutionException error) {
      if (error.getCause() instanceof java.io.IOException) throw (java.io.IOException) error.getCause();
      throw new java.io.IOException(error.getCause());
    }
  }

  // Reads bytes from an offset on. At the end of the file, fewer bytes are returned.
  public byte[] read(String url, long offset, int length, long size) throws java.io.IOException {
    FSDataInputStream stream = opened(new Path(url), conf, size);
    try {
      if (offset > 0) stream.seek(offset);
      return stream.readNBytes(length);
    } finally {
      stream.close();
    }
  }

  // Does the same as read, for so many bytes that py4j would send them in several pieces. Returns the port and the
  // length.
  public String serve(String url, long offset, int length, long size, byte[] password) throws java.io.IOException {
    return new Served(read(url, offset, length, size)).at(password);
  }

  // Writes a whole file or nothing. In object stores, a file appears only when it is closed. In other file systems, the
  // file is first written under the name "temporary" and then renamed. Returns false if the file already exists. "how":
  // "put" replaces the file. With "conditional", the object store refuses to replace the file. With "rename", the
  // namenode refuses to replace the file.
  public boolean write(String url, byte[] data, String how, String temporary) throws java.io.IOException {
    Path path = new Path(url);
    FileSystem files = of(path, conf);
    if (how.equals("conditional")) return conditionally(files, path, data);
    if (temporary == null) {
      fill(files.create(path, true), data);
      return true;
    }
    Path draft = new Path(temporary);
    boolean named = false;
    try {
      fill(files.create(draft, true), data);
      named = renamed(files, draft, path, !how.equals("rename"));
    } finally {
      if (!named) files.delete(draft, false);
    }
    return named;
  }

  static void fill(FSDataOutputStream stream, byte[] data) throws java.io.IOException {
    try {
      stream.write(data);
    } catch (java.io.IOException error) {
      org.apache.hadoop.io.IOUtils.cleanupWithLogger(null, new java.io.Closeable[] {stream});
      throw error;
    }
    stream.close();
  }

  boolean conditionally(FileSystem files, Path path, byte[] data) throws java.io.IOException {
    try {
      FSDataOutputStreamBuilder builder = files.createFile(path);
      builder.overwrite(false);
      builder.recursive();
      builder.must(CONDITIONAL, "true");
      fill((FSDataOutputStream) builder.build(), data);
    } catch (FileAlreadyExistsException error) {
      return false;
    } catch (java.io.IOException error) {
      if (error.getClass().getSimpleName().equals("RemoteFileChangedException")) return false;
      throw error;
    }
    return true;
  }

  // With the scheme hdfs, the namenode replaces the old file and renames in one step. In other file systems, the old
  // file is deleted before the rename.
  boolean renamed(FileSystem files, Path from, Path to, boolean replaces) throws java.io.IOException {
    if (!"hdfs".equals(files.getScheme())) {
      if (replaces) files.delete(to, false);
      return files.rename(from, to);
    }
    Options.Rename how = replaces ? Options.Rename.OVERWRITE : Options.Rename.NONE;
    try {
      FileContext.getFileContext(files.getUri(), conf).rename(from, to, new Options.Rename[] {how});
    } catch (FileAlreadyExistsException error) {
      return false;
    }
    return true;
  }

  public boolean rename(String from, String to) throws java.io.IOException {
    Path path = new Path(from);
    return renamed(of(path, conf), path, new Path(to), true);
  }

  public void delete(String url) throws java.io.IOException {
    Path path = new Path(url);
    of(path, conf).delete(path, false);
  }

  public void makeDirectory(String url) throws java.io.IOException {
    Path path = new Path(url);
    of(path, conf).mkdirs(path);
  }

  public boolean refusesSecond(String url) throws java.io.IOException {
    Path path = new Path(url);
    return of(path, conf).hasPathCapability(path, CONDITIONAL);
  }

  // Returns a setting, which may also be in a credential provider. Returns null if the setting is not set.
  public String setting(String name) throws java.io.IOException {
    char[] found = conf.getPassword(name);
    return found == null ? null : new String(found).trim();
  }

  public String user() throws java.io.IOException { return UserGroupInformation.getCurrentUser().getShortUserName(); }

  public boolean isSecure() { return UserGroupInformation.isSecurityEnabled(); }
}
