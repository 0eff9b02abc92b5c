package orcidx.interop;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.AppendOnlyFileStore;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fileindex.FileIndexPredicate;
import org.apache.paimon.fileindex.FileIndexResult;
import org.apache.paimon.fileindex.bitmap.BitmapIndexResult;
import org.apache.paimon.format.FileFormat;
import org.apache.paimon.format.FormatReaderContext;
import org.apache.paimon.format.FormatWriter;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.PositionOutputStream;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.RowKeyExtractor;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.CloseableIterator;
import org.apache.paimon.utils.RoaringBitmap32;
import org.apache.paimon.utils.TypeUtils;

/** Loops over rows in Java. Spark's Janino compiles this class at run time, so it uses no generics. */
public final class PaimonBridge {

    /** Appends or deletes the rows of an ORC file, compacts a bucket of each partition if `compact`, and commits. */
    public static int write(FileStoreTable table, String orcFile, String kind, boolean compact, String scratch)
            throws Exception {
        LocalFileIO io = LocalFileIO.create();
        Path path = new Path(orcFile);
        RowType type = table.rowType();
        RecordReader reader =
                FileFormat.fromIdentifier("orc", new Options())
                        .createReaderFactory(type, type, Collections.EMPTY_LIST)
                        .createReader(new FormatReaderContext(io, path, io.getFileSize(path)));
        CloseableIterator rows = reader.toCloseableIterator();
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        BatchTableWrite write = builder.newWrite();
        write.withIOManager(IOManager.create(scratch));
        HashBucketAssigner assigner = table.bucketMode() == BucketMode.HASH_DYNAMIC ? assigner(table) : null;
        Map touched = new HashMap();
        int count = 0;
        while (rows.hasNext()) {
            InternalRow row = (InternalRow) rows.next();
            row.setRowKind(RowKind.valueOf(kind));
            if (assigner == null) {
                write.write(row);
            } else {
                RowKeyExtractor keys = table.createRowKeyExtractor();
                keys.setRecord(row);
                write.write(row, assigner.assign(keys.partition(), keys.trimmedPrimaryKey().hashCode()));
            }
            if (compact) {
                touched.put(write.getPartition(row).copy(), Integer.valueOf(write.getBucket(row)));
            }
            count++;
        }
        rows.close();
        java.util.Iterator buckets = touched.entrySet().iterator();
        while (buckets.hasNext()) {
            Map.Entry bucket = (Map.Entry) buckets.next();
            write.compact((BinaryRow) bucket.getKey(), ((Integer) bucket.getValue()).intValue(), true);
        }
        BatchTableCommit commit = builder.newCommit();
        commit.commit(write.prepareCommit());
        write.close();
        commit.close();
        return count;
    }

    /**
     * Compacts an append table without buckets, as the jobs of Spark and Flink do. Returns the number of compacted
     * files, or 0 if there was nothing to do.
     */
    public static int compact(FileStoreTable table, String user, String scratch) throws Exception {
        List tasks = new AppendCompactCoordinator(table, false).run();
        BaseAppendFileStoreWrite write = ((AppendOnlyFileStore) table.store()).newWrite(user);
        write.withIOManager(IOManager.create(scratch));
        List messages = new ArrayList();
        int count = 0;
        for (int i = 0; i < tasks.size(); i++) {
            AppendCompactTask task = (AppendCompactTask) tasks.get(i);
            messages.add(task.doCompact(table, write));
            count += task.compactBefore().size();
        }
        write.close();
        if (count > 0) {
            TableCommitImpl commit = table.newCommit(user);
            commit.commit(System.nanoTime(), messages);
            commit.close();
        }
        return count;
    }

    /** Returns the bucket into which the table's own writer puts each row of an ORC file. */
    public static String buckets(FileStoreTable table, String orcFile) throws Exception {
        LocalFileIO io = LocalFileIO.create();
        Path path = new Path(orcFile);
        RowType type = table.rowType();
        CloseableIterator rows =
                FileFormat.fromIdentifier("orc", new Options())
                        .createReaderFactory(type, type, Collections.EMPTY_LIST)
                        .createReader(new FormatReaderContext(io, path, io.getFileSize(path)))
                        .toCloseableIterator();
        BatchTableWrite write = table.newBatchWriteBuilder().newWrite();
        StringBuilder text = new StringBuilder();
        while (rows.hasNext()) {
            text.append(write.getBucket((InternalRow) rows.next())).append(' ');
        }
        rows.close();
        write.close();
        return text.toString();
    }

    /** Commits rows of a number and an instant. The instants are given in microseconds. */
    public static void writeInstants(FileStoreTable table, String micros) throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        BatchTableWrite write = builder.newWrite();
        String[] words = micros.split(" ");
        for (int i = 0; i < words.length; i++) {
            Timestamp instant = Timestamp.fromMicros(Long.parseLong(words[i]));
            write.write(GenericRow.of(new Object[] {Long.valueOf(i), instant}));
        }
        BatchTableCommit commit = builder.newCommit();
        commit.commit(write.prepareCommit());
        write.close();
        commit.close();
    }

    private static HashBucketAssigner assigner(FileStoreTable table) {
        long target = Long.parseLong((String) table.options().get("dynamic-bucket.target-row-num"));
        return new HashBucketAssigner(
                table.snapshotManager(), "orcidx", table.store().newIndexFileHandler(), 1, 1, 0, target, -1);
    }

    /** Writes the rows that Paimon reads to an ORC file. Without `exact`, only indexes and statistics exclude rows. */
    public static int read(FileStoreTable table, Predicate filter, boolean exact, String orcFile, String scratch)
            throws Exception {
        ReadBuilder builder = table.newReadBuilder();
        if (filter != null) {
            builder = builder.withFilter(filter);
        }
        org.apache.paimon.table.source.TableRead read = builder.newRead().withIOManager(IOManager.create(scratch));
        if (exact) {
            read = read.executeFilter();
        }
        List splits = builder.newScan().plan().splits();
        CloseableIterator rows = read.createReader(splits).toCloseableIterator();
        PositionOutputStream out = LocalFileIO.create().newOutputStream(new Path(orcFile), true);
        FormatWriter writer =
                FileFormat.fromIdentifier("orc", new Options())
                        .createWriterFactory(table.rowType())
                        .create(out, "zstd");
        int count = 0;
        while (rows.hasNext()) {
            writer.addElement((InternalRow) rows.next());
            count++;
        }
        rows.close();
        writer.close();
        out.close();
        return count;
    }

    /** Returns the answer of Paimon's own file-index reader: "REMAIN", "SKIP" or, for example, "ROWS 1 5 9". */
    public static String evaluate(String indexFile, RowType type, Predicate predicate) throws Exception {
        FileIndexPredicate index = new FileIndexPredicate(new Path(indexFile), LocalFileIO.create(), type);
        FileIndexResult result = index.evaluate(predicate);
        StringBuilder text = new StringBuilder(result.remain() ? "REMAIN" : "SKIP");
        if (result.remain() && result instanceof BitmapIndexResult) {
            text = new StringBuilder("ROWS");
            java.util.Iterator positions = ((RoaringBitmap32) ((BitmapIndexResult) result).get()).iterator();
            while (positions.hasNext()) {
                text.append(' ').append(positions.next());
            }
        }
        index.close();
        return text.toString();
    }

    /** Makes one comparison. Literals are given as text, because py4j would turn a Long into an Integer. */
    public static Predicate leaf(RowType type, String column, String operation, List literals) throws Exception {
        PredicateBuilder builder = new PredicateBuilder(type);
        int index = type.getFieldIndex(column);
        List values = new ArrayList();
        for (int i = 0; i < literals.size(); i++) {
            values.add(TypeUtils.castFromString((String) literals.get(i), type.getTypeAt(index)));
        }
        if (operation.equals("in")) {
            return builder.in(index, values);
        } else if (operation.equals("notIn")) {
            return builder.notIn(index, values);
        } else if (operation.equals("isNull")) {
            return builder.isNull(index);
        } else if (operation.equals("isNotNull")) {
            return builder.isNotNull(index);
        } else if (operation.equals("between")) {
            return builder.between(index, values.get(0), values.get(1));
        }
        Method method = PredicateBuilder.class.getMethod(operation, new Class[] {Integer.TYPE, Object.class});
        return (Predicate) method.invoke(builder, new Object[] {Integer.valueOf(index), values.get(0)});
    }
}
