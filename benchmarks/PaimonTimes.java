package orcidx.benchmarks;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.fileindex.FileIndexPredicate;
import org.apache.paimon.fileindex.FileIndexResult;
import org.apache.paimon.fileindex.FileIndexWriter;
import org.apache.paimon.fileindex.FileIndexer;
import org.apache.paimon.fileindex.bitmap.BitmapIndexResult;
import org.apache.paimon.format.FileFormat;
import org.apache.paimon.format.FormatReaderContext;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.FieldRef;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.SortValue;
import org.apache.paimon.predicate.TopN;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.CloseableIterator;
import org.apache.paimon.utils.RoaringBitmap32;

/** Times Paimon's own work. Each method returns "wall nanoseconds, processor nanoseconds" of its best round. */
public final class PaimonTimes {

    private static Object[] values;
    private static byte[] last = new byte[0];

    /** Keeps the first column of an ORC file, boxed as Paimon's writers take it. */
    public static int load(RowType type, String orcFile) throws Exception {
        Path path = new Path(orcFile);
        LocalFileIO io = LocalFileIO.create();
        CloseableIterator rows =
                FileFormat.fromIdentifier("orc", new Options())
                        .createReaderFactory(type, type, Collections.EMPTY_LIST)
                        .createReader(new FormatReaderContext(io, path, io.getFileSize(path)))
                        .toCloseableIterator();
        InternalRow.FieldGetter getter = InternalRow.createFieldGetter(type.getTypeAt(0), 0);
        List found = new ArrayList();
        while (rows.hasNext()) {
            Object value = getter.getFieldOrNull((InternalRow) rows.next());
            boolean text = value instanceof org.apache.paimon.data.BinaryString;
            found.add(text ? ((org.apache.paimon.data.BinaryString) value).copy() : value);
        }
        rows.close();
        values = found.toArray();
        return values.length;
    }

    /** Builds an index of the loaded column; `result` has the bytes. */
    public static String build(String kind, DataType type, Map options, Integer rounds) throws Exception {
        long[] best = start();
        for (int round = 0; round < rounds.intValue(); round++) {
            long[] began = clocks();
            FileIndexWriter writer = FileIndexer.create(kind, type, new Options(options)).createWriter();
            for (int i = 0; i < values.length; i++) {
                writer.writeRecord(values[i]);
            }
            last = writer.serializedBytes();
            keep(best, began);
        }
        return best[0] + " " + best[1];
    }

    /** Opens a file index and asks it; `result` has the rows as a bitmap, or one byte: 1 for all, 0 for none. */
    public static String evaluate(String file, RowType type, Predicate predicate, Integer rounds) throws Exception {
        long[] best = start();
        for (int round = 0; round < rounds.intValue(); round++) {
            long[] began = clocks();
            FileIndexPredicate index = new FileIndexPredicate(new Path(file), LocalFileIO.create(), type);
            RoaringBitmap32 rows = rowsOf(index.evaluate(predicate));
            index.close();
            keep(best, began);
            last = bytes(rows);
        }
        return best[0] + " " + best[1];
    }

    /** As `evaluate`, for the k largest values. */
    public static String top(String file, RowType type, Integer k, Integer rounds) throws Exception {
        FieldRef field = new FieldRef(0, (String) type.getFieldNames().get(0), type.getTypeAt(0));
        TopN order =
                new TopN(field, SortValue.SortDirection.DESCENDING, SortValue.NullOrdering.NULLS_LAST, k.intValue());
        long[] best = start();
        for (int round = 0; round < rounds.intValue(); round++) {
            long[] began = clocks();
            FileIndexPredicate index = new FileIndexPredicate(new Path(file), LocalFileIO.create(), type);
            RoaringBitmap32 rows = rowsOf(index.evaluateTopN(order, FileIndexResult.REMAIN));
            index.close();
            keep(best, began);
            last = bytes(rows);
        }
        return best[0] + " " + best[1];
    }

    /** Reads a table and adds up its first column, a long; the third and fourth numbers are rows and sum. */
    public static String scan(FileStoreTable table, Integer rounds) throws Exception {
        long[] best = start();
        long count = 0;
        long sum = 0;
        for (int round = 0; round < rounds.intValue(); round++) {
            long[] began = clocks();
            ReadBuilder builder = table.newReadBuilder();
            CloseableIterator rows =
                    builder.newRead().createReader(builder.newScan().plan().splits()).toCloseableIterator();
            count = 0;
            sum = 0;
            while (rows.hasNext()) {
                sum += ((InternalRow) rows.next()).getLong(0);
                count++;
            }
            rows.close();
            keep(best, began);
        }
        return best[0] + " " + best[1] + " " + count + " " + sum;
    }

    /** What the last round made. */
    public static byte[] result() {
        return last;
    }

    private static RoaringBitmap32 rowsOf(FileIndexResult result) {
        return result instanceof BitmapIndexResult
                ? (RoaringBitmap32) ((BitmapIndexResult) result).get()
                : result.remain() ? null : new RoaringBitmap32();
    }

    private static byte[] bytes(RoaringBitmap32 rows) throws Exception {
        if (rows == null) {
            return new byte[] {1};
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        rows.serialize(new DataOutputStream(out));
        return rows.isEmpty() ? new byte[] {0} : out.toByteArray();
    }

    private static long[] start() {
        return new long[] {Long.MAX_VALUE, Long.MAX_VALUE};
    }

    private static long[] clocks() {
        return new long[] {System.nanoTime(), ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime()};
    }

    private static void keep(long[] best, long[] began) {
        long[] now = clocks();
        best[0] = Math.min(best[0], now[0] - began[0]);
        best[1] = Math.min(best[1], now[1] - began[1]);
    }
}
