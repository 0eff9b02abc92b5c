package orcidx.tests;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.OrcFile;
import org.apache.orc.TypeDescription;
import org.apache.orc.Writer;

/**
 * Fills ORC Java's vectors with the given values, without the checks of an engine.
 *
 * Each column, depth first, has a pool of values. For each row, a big-endian int is the number of its value in the
 * pool, or -1 for null. An entry of a pool has its length as an int, and the bytes of the value: 8 bytes of a long or
 * double, a decimal's text in UTF-8, or the bytes of a text. A timestamp is a long of nanoseconds. The pool of a struct
 * is empty.
 */
public class VectorWriter {
    private static final int BATCH = 1024;

    public static void write(String path, String schema, String settings, List given) throws Exception {
        Configuration conf = new Configuration();
        String[] lines = settings.split("\n");
        for (int i = 0; i < lines.length; i++) {
            int cut = lines[i].indexOf('=');
            if (cut > 0) conf.set(lines[i].substring(0, cut), lines[i].substring(cut + 1));
        }
        TypeDescription type = TypeDescription.fromString(schema);
        OrcFile.WriterOptions options = OrcFile.writerOptions(conf);
        options.setSchema(type);
        Writer writer = OrcFile.createWriter(new Path(path), options);
        VectorizedRowBatch batch = type.createRowBatch(BATCH);
        int rows = ((byte[]) given.get(1)).length / 4;
        for (int start = 0; start < rows; start += BATCH) {
            batch.reset();
            batch.size = Math.min(BATCH, rows - start);
            Iterator columns = given.iterator();
            for (int i = 0; i < batch.cols.length; i++) {
                fill(batch.cols[i], columns, start, batch.size);
            }
            writer.addRowBatch(batch);
        }
        writer.close();
    }

    private static void fill(ColumnVector vector, Iterator columns, int start, int count) {
        ByteBuffer[] pool = entries((byte[]) columns.next());
        ByteBuffer codes = ByteBuffer.wrap((byte[]) columns.next());
        for (int i = 0; i < count; i++) {
            int code = codes.getInt(4 * (start + i));
            if (code < 0) {
                vector.noNulls = false;
                vector.isNull[i] = true;
            } else if (!(vector instanceof StructColumnVector)) {
                set(vector, i, pool[code]);
            }
        }
        if (vector instanceof StructColumnVector) {
            ColumnVector[] fields = ((StructColumnVector) vector).fields;
            for (int i = 0; i < fields.length; i++) fill(fields[i], columns, start, count);
        }
    }

    private static ByteBuffer[] entries(byte[] pool) {
        ByteBuffer data = ByteBuffer.wrap(pool);
        int count = 0;
        while (data.hasRemaining()) {
            int length = data.getInt();
            data.position(data.position() + length);
            count++;
        }
        ByteBuffer[] found = new ByteBuffer[count];
        data.rewind();
        for (int i = 0; i < count; i++) {
            byte[] entry = new byte[data.getInt()];
            data.get(entry);
            found[i] = ByteBuffer.wrap(entry);
        }
        return found;
    }

    private static void set(ColumnVector vector, int row, ByteBuffer entry) {
        if (vector instanceof BytesColumnVector) {
            byte[] bytes = entry.array();
            ((BytesColumnVector) vector).setVal(row, bytes, 0, bytes.length);
        } else if (vector instanceof DoubleColumnVector) {
            ((DoubleColumnVector) vector).vector[row] = entry.getDouble(0);
        } else if (vector instanceof DecimalColumnVector) {
            BigDecimal value = new BigDecimal(new String(entry.array()));
            ((DecimalColumnVector) vector).vector[row].set(HiveDecimal.create(value)); // without the vector's rounding
        } else if (vector instanceof TimestampColumnVector) {
            long nanos = entry.getLong(0);
            long second = Math.floorDiv(nanos, 1000000000L);
            int rest = (int) (nanos - 1000000000L * second);
            ((TimestampColumnVector) vector).time[row] = 1000 * second + rest / 1000000;
            ((TimestampColumnVector) vector).nanos[row] = rest;
        } else {
            ((LongColumnVector) vector).vector[row] = entry.getLong(0);
        }
    }
}
