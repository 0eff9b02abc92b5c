// Restricts the ORC files that Spark reads to those that orcidx's indexes do not exclude.
//
// This is an optimizer rule. Janino, which Spark ships, compiles it when orcidx.spark.enable is called. If a scan of
// Spark's own ORC source may have an index of orcidx, the scan gets another FileIndex, which is Spark's list of files.
// The new FileIndex skips the files that Python names. The meaning and the plan of a query stay the same: a file is
// skipped only if a filter that Spark itself tests on each row is true for no row of the file.
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.RLike;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType$;
import org.apache.spark.sql.types.TimestampType;
import org.apache.hadoop.conf.Configuration;

public class IndexedFilesRule extends Rule {
  static final String ITEM = "\u0001";
  static final String PART = "\u0002";
  static final String POSITIONAL = "orc.force.positional.evolution";
  static final String INFERS = "spark.sql.sources.partitionColumnTypeInference.enabled";
  static final String FILE_LENGTH = "orc.max.file.length";

  private java.util.function.BiFunction asked;

  public IndexedFilesRule() { }

  // Calls Python. For a description of a scan and a Listing, Python returns the numbers of the files to skip. For the
  // directories of relations, and null for the Listing, Python returns the numbers of the relations that may have an
  // index. Numbers are separated by commas. The text is empty if there are no numbers. py4j converts the Python object
  // that is passed to this setter to a proxy.
  public void setAsked(java.util.function.BiFunction asked) { this.asked = asked; }

  public TreeNode apply(TreeNode plan) {
    final java.util.function.BiFunction answers = asked;
    final java.util.Set indexed = indexed((LogicalPlan) plan, answers);
    if (indexed.isEmpty()) return plan;
    return ((LogicalPlan) plan).transformUpWithSubqueries(new scala.runtime.AbstractPartialFunction() {
      public boolean isDefinedAt(Object node) { return indexed.contains(filesOf(node)); }

      public Object applyOrElse(Object node, scala.Function1 otherwise) {
        if (!isDefinedAt(node)) return otherwise.apply(node);
        LogicalRelation relation = (LogicalRelation) node;
        HadoopFsRelation files = filesOf(node);
        Object[] arguments = new Object[relation.productArity()];
        for (int i = 0; i < arguments.length; i++) arguments[i] = relation.productElement(i);
        arguments[0] = new HadoopFsRelation(
          new OrcidxFileIndex(files, answers), files.partitionSchema(), files.dataSchema(),
          files.bucketSpec(), files.fileFormat(), files.options(), files.sparkSession());
        return ((TreeNode) relation).makeCopy(arguments);
      }
    });
  }

  // Returns the relation of a scan of Spark's own ORC source, if the relation still has Spark's own FileIndex. Returns
  // null for any other node.
  static HadoopFsRelation filesOf(Object node) {
    if (!(node instanceof LogicalRelation) || ((LogicalRelation) node).isStreaming()) return null;
    if (!(((LogicalRelation) node).relation() instanceof HadoopFsRelation)) return null;
    HadoopFsRelation files = (HadoopFsRelation) ((LogicalRelation) node).relation();
    boolean own = files.location() instanceof OrcidxFileIndex || files.fileFormat().getClass() != OrcFileFormat.class;
    return own ? null : files;
  }

  // Returns the relations that may have an index. Python is called once for all relations, because a call is slow while
  // a query runs: the tasks of the query use the processors, and the call waits 2 to 20 ms for a free processor.
  static java.util.Set indexed(LogicalPlan plan, java.util.function.BiFunction asked) {
    final java.util.ArrayList relations = new java.util.ArrayList();
    final StringBuilder question = new StringBuilder();
    plan.collectWithSubqueries(new scala.runtime.AbstractPartialFunction() {
      public boolean isDefinedAt(Object node) { return filesOf(node) != null; }

      public Object applyOrElse(Object node, scala.Function1 otherwise) {
        if (!isDefinedAt(node)) return otherwise.apply(node);
        HadoopFsRelation files = filesOf(node);
        if (!relations.isEmpty()) question.append(PART);
        question.append(items(names(files.location().rootPaths().iterator())));
        relations.add(files);
        return node;
      }
    });
    java.util.Set found = java.util.Collections.newSetFromMap(new java.util.IdentityHashMap());
    if (relations.isEmpty()) return found;
    try {
      String numbers = (String) asked.apply(Served.text(question.toString()), null);
      if (numbers == null || numbers.length() == 0) return found;
      String[] each = numbers.split(",");
      for (int i = 0; i < each.length; i++) found.add(relations.get(Integer.parseInt(each[i])));
    } catch (RuntimeException error) { // if Python fails, the relations keep Spark's own FileIndex
      found.clear();
    }
    return found;
  }

  // Returns six facts as one text, because py4j would need twelve calls for them: the columns whose values are not
  // those of the files' columns of the same name (partition columns, and the columns of survivors.misplaced), the
  // columns of text that is not compared by its bytes, the names of the relation's options, the JVM's zone, whether
  // types of partitions are inferred, and how many tasks run at a time.
  static String about(HadoopFsRelation files) {
    java.util.ArrayList other = new java.util.ArrayList(java.util.Arrays.asList(files.partitionSchema().fieldNames()));
    StructField[] fields = files.dataSchema().fields();
    for (int i = 0; i < fields.length; i++) {
      if (fields[i].name().startsWith("_col") && !fields[i].name().equals("_col" + i)) other.add(fields[i].name());
    }
    StringBuilder text = new StringBuilder(items(other.iterator())).append(PART);
    java.util.ArrayList collated = new java.util.ArrayList();
    for (int i = 0; i < fields.length; i++) {
      if (fields[i].dataType().typeName().startsWith("string collate")) collated.add(fields[i].name());
    }
    text.append(items(collated.iterator())).append(PART).append(items(names(files.options().keysIterator())));
    // The settings of the session and of Hadoop, overridden by the options. The reader of the files, which is made
    // after the files are listed, gets the same settings.
    Configuration settings = files.sparkSession().sessionState().newHadoopConfWithOptions(files.options());
    if (settings.getBoolean(POSITIONAL, false)) text.append(ITEM).append(POSITIONAL);
    if (settings.get(FILE_LENGTH) != null) text.append(ITEM).append(FILE_LENGTH);
    text.append(PART).append(java.util.TimeZone.getDefault().getID()).append(ITEM)
      .append(files.sparkSession().sessionState().conf().getConfString(INFERS, "true")).append(ITEM)
      .append(files.sparkSession().sparkContext().defaultParallelism());
    return text.toString();
  }

  static java.util.Iterator names(scala.collection.Iterator each) {
    java.util.ArrayList found = new java.util.ArrayList();
    while (each.hasNext()) found.add(each.next());
    return found.iterator();
  }

  static String items(java.util.Iterator each) {
    StringBuilder text = new StringBuilder();
    while (each.hasNext()) {
      text.append(Served.item(each.next().toString()));
      if (each.hasNext()) text.append(ITEM);
    }
    return text.toString();
  }

  // Returns the conditions in Catalyst's JSON. This JSON does not show the values of an InSet and the escape character of
  // a LIKE, and it shows times in a zone that depends on Spark's version. So each of these nodes is replaced first.
  static String json(scala.collection.@SEQ@ conditions) {
    StringBuilder text = new StringBuilder("[");
    for (int i = 0; i < conditions.size(); i++) {
      if (i > 0) text.append(",");
      TreeNode plain = ((TreeNode) conditions.apply(i)).transformUp(new scala.runtime.AbstractPartialFunction() {
        public boolean isDefinedAt(Object node) { return shown(node) != node; }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
          Object found = shown(node);
          return found != node ? found : otherwise.apply(node);
        }
      });
      text.append(plain.toJSON());
    }
    return text.append("]").toString();
  }

  // Returns a node whose JSON has all that Python needs. Any other node is returned unchanged.
  static Object shown(Object node) {
    if (node instanceof Literal) return literal((Literal) node);
    if (node instanceof Like && ((Like) node).escapeChar() != '\\') { // Python does not evaluate an RLike
      return new RLike((Expression) ((Like) node).left(), (Expression) ((Like) node).right());
    }
    if (!(node instanceof InSet) || ((InSet) node).hset().size() > 1000) return node;
    InSet set = (InSet) node;
    DataType kind = ((Expression) set.child()).dataType();
    java.util.ArrayList values = new java.util.ArrayList();
    scala.collection.Iterator each = set.hset().iterator();
    while (each.hasNext()) values.add(literal(new Literal(each.next(), kind)));
    return new In((Expression) set.child(), sequence(values));
  }

  // Returns an instant as a cast from a local time in UTC. The JSON shows local times in microseconds.
  static Expression literal(Literal literal) {
    if (!(literal.dataType() instanceof TimestampType) || literal.value() == null) return literal;
    DataType local = (DataType) (Object) TimestampNTZType$.MODULE$;
    return new Cast(new Literal(literal.value(), local), literal.dataType(), new scala.Some("UTC"));
  }

  static scala.collection.@SEQ@ sequence(java.util.List items) {
    scala.collection.immutable.List found = (scala.collection.immutable.List) (Object) scala.collection.immutable.Nil$.MODULE$;
    for (int i = items.size() - 1; i >= 0; i--) found = new scala.collection.immutable.$colon$colon(items.get(i), found);
    return found;
  }

  // Returns the text of a scan's files when Python calls get().
  public static class Listing implements java.util.function.Supplier {
    final scala.collection.@SEQ@ directories;

    public Listing(scala.collection.@SEQ@ directories) { this.directories = directories; }

    public Object get() {
      Served.Columns columns = new Served.Columns();
      for (int i = 0; i < directories.size(); i++) {
        scala.collection.Iterator files = ((PartitionDirectory) directories.apply(i)).files().iterator();
        while (files.hasNext()) columns.add(((FileStatusWithMetadata) files.next()).fileStatus());
      }
      return columns.answer();
    }
  }

  // EXPLAIN shows the name of this class as the location of a scan.
  public static class OrcidxFileIndex implements FileIndex {
    final HadoopFsRelation files;
    final FileIndex inner;
    final java.util.function.BiFunction asked;

    public OrcidxFileIndex(HadoopFsRelation files, java.util.function.BiFunction asked) {
      this.files = files;
      this.inner = files.location();
      this.asked = asked;
    }

    public scala.collection.@SEQ@ listFiles(scala.collection.@SEQ@ partitions, scala.collection.@SEQ@ conditions) {
      scala.collection.@SEQ@ found = inner.listFiles(partitions, conditions);
      if (conditions.isEmpty()) return found;
      String skipped;
      try { // if Python fails, all files are read
        String question = items(names(inner.rootPaths().iterator())) + PART + about(files) + PART + json(conditions);
        skipped = (String) asked.apply(Served.text(question), new Listing(found));
      } catch (RuntimeException error) {
        return found;
      }
      return skipped == null || skipped.length() == 0 ? found : without(found, skipped);
    }

    static scala.collection.@SEQ@ without(scala.collection.@SEQ@ found, String skipped) {
      java.util.HashSet out = new java.util.HashSet(java.util.Arrays.asList(skipped.split(",")));
      java.util.ArrayList left = new java.util.ArrayList();
      int number = 0;
      for (int i = 0; i < found.size(); i++) {
        PartitionDirectory directory = (PartitionDirectory) found.apply(i);
        java.util.ArrayList files = new java.util.ArrayList();
        for (int j = 0; j < directory.files().size(); j++) {
          if (!out.contains(String.valueOf(number++))) files.add(directory.files().apply(j));
        }
        if (files.size() > 0) left.add(directory.copy(directory.values(), sequence(files)));
      }
      return sequence(left);
    }

    public scala.collection.@SEQ@ rootPaths() { return inner.rootPaths(); }
    public String[] inputFiles() { return inner.inputFiles(); }
    public void refresh() { inner.refresh(); }
    public long sizeInBytes() { return inner.sizeInBytes(); }
    public StructType partitionSchema() { return inner.partitionSchema(); }
    public scala.Option metadataOpsTimeNs() { return inner.metadataOpsTimeNs(); }
    public String toString() { return inner.toString(); }
    public int hashCode() { return inner.hashCode(); }
    // An OrcidxFileIndex must not be equal to its inner index. Otherwise the plan would be equal to the plan before the
    // rule, and Catalyst would drop the change.
    public boolean equals(Object other) {
      return other instanceof OrcidxFileIndex && inner.equals(((OrcidxFileIndex) other).inner);
    }
  }
}
