package orcidx.writing;

import java.io.BufferedReader;
import java.io.PrintWriter;
import java.io.StringReader;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Date;
import java.sql.Timestamp;
import java.util.List;
import java.util.TimeZone;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.ql.io.sarg.PredicateLeaf;
import org.apache.hadoop.hive.ql.io.sarg.SearchArgument;
import org.apache.hadoop.hive.ql.io.sarg.SearchArgumentFactory;
import org.apache.hadoop.hive.serde2.io.HiveDecimalWritable;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.UnionColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.orc.RecordReader;
import org.apache.orc.TypeDescription;

/** Rows of a file as ORC Java reads them: all rows, rows after a seek by the row index, and rows left by predicates. */
public class OrcRows {
    /**
     * Reads a file for each line of {@code questions}, and writes the rows to {@code target}. A line is "all", or "seek"
     * with row numbers, or "where" with column, operator, type and literals. Its result is a line "=", and then one line
     * for each row.
     */
    public static void dump(String path, String target, String questions) throws Exception {
        TimeZone before = TimeZone.getDefault();
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        PrintWriter out = new PrintWriter(target, "UTF-8");
        try {
            OrcFile.ReaderOptions options = OrcFile.readerOptions(new Configuration());
            Reader reader = OrcFile.createReader(
                new Path(path), options.useUTCTimestamp(true).convertToProlepticGregorian(true));
            BufferedReader lines = new BufferedReader(new StringReader(questions));
            String line = lines.readLine();
            while (line != null) {
                out.println("=");
                answer(reader, line.split("\t", -1), out);
                line = lines.readLine();
            }
            reader.close();
        } finally {
            out.close();
            TimeZone.setDefault(before);
        }
    }

    private static void answer(Reader reader, String[] question, PrintWriter out) throws Exception {
        Reader.Options options = reader.options();
        options.useZeroCopy(false);
        if (question[0].equals("where")) {
            options.searchArgument(argument(question), new String[] {question[1]});
        }
        if (question[0].equals("seek") && reader.getSchema().getFieldNames().contains("row")) {
            // Without a search argument, Java cannot seek in files with bloom filters, not even in its own files. It
            // raises a NullPointerException. So the search argument is one that keeps all rows.
            String[] all = {"where", "row", "!<", "LONG", String.valueOf(Long.MIN_VALUE)};
            options.searchArgument(argument(all), new String[] {"row"});
        }
        RecordReader rows = reader.rows(options);
        VectorizedRowBatch batch = reader.getSchema().createRowBatch(1000);
        if (question[0].equals("seek")) {
            for (int i = 1; i < question.length; i++) {
                rows.seekToRow(Long.parseLong(question[i]));
                rows.nextBatch(batch);
                print(reader.getSchema(), batch, 1, out);
            }
        } else {
            while (rows.nextBatch(batch)) {
                print(reader.getSchema(), batch, batch.size, out);
            }
        }
        rows.close();
    }

    private static SearchArgument argument(String[] q) throws Exception {
        PredicateLeaf.Type type = q[3].isEmpty() ? PredicateLeaf.Type.LONG : PredicateLeaf.Type.valueOf(q[3]);
        Object[] literals = new Object[q.length - 4];
        for (int i = 4; i < q.length; i++) {
            literals[i - 4] = literal(type, q[i]);
        }
        boolean negated = q[2].startsWith("!");
        String op = negated ? q[2].substring(1) : q[2];
        SearchArgument.Builder builder = SearchArgumentFactory.newBuilder();
        builder = negated ? builder.startNot() : builder.startAnd();
        if (op.equals("=")) {
            builder.equals(q[1], type, literals[0]);
        } else if (op.equals("<")) {
            builder.lessThan(q[1], type, literals[0]);
        } else if (op.equals("<=")) {
            builder.lessThanEquals(q[1], type, literals[0]);
        } else if (op.equals("in")) {
            builder.in(q[1], type, literals);
        } else if (op.equals("between")) {
            builder.between(q[1], type, literals[0], literals[1]);
        } else {
            builder.isNull(q[1], type);
        }
        return builder.end().build();
    }

    private static Object literal(PredicateLeaf.Type type, String text) throws Exception {
        switch (type) {
            case BOOLEAN:
                return Boolean.valueOf(text.equals("1"));
            case LONG:
                return Long.valueOf(text);
            case FLOAT:
                return Double.valueOf(Double.longBitsToDouble(Long.parseUnsignedLong(text, 16)));
            case DECIMAL:
                return new HiveDecimalWritable(HiveDecimal.create(new BigDecimal(text)));
            case DATE:
                return new Date(Long.parseLong(text) * 86400000L);
            case TIMESTAMP:
                BigDecimal[] parts = new BigDecimal(text).divideAndRemainder(BigDecimal.valueOf(1000000000L));
                long seconds = parts[0].longValue();
                long nanos = parts[1].longValue();
                if (nanos < 0) {
                    nanos += 1000000000L;
                    seconds -= 1;
                }
                Timestamp found = new Timestamp(seconds * 1000L);
                found.setNanos((int) nanos);
                return found;
            default:
                byte[] raw = new byte[text.length() / 2];
                for (int i = 0; i < raw.length; i++) {
                    raw[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
                }
                return new String(raw, StandardCharsets.UTF_8);
        }
    }

    private static void print(TypeDescription schema, VectorizedRowBatch batch, int rows, PrintWriter out) {
        List children = schema.getChildren();
        for (int row = 0; row < rows; row++) {
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < batch.cols.length; i++) {
                if (i > 0) {
                    text.append(' ');
                }
                value(text, (TypeDescription) children.get(i), batch.cols[i], row);
            }
            out.println(text.toString());
        }
    }

    private static void value(StringBuilder text, TypeDescription type, ColumnVector vector, int at) {
        int row = vector.isRepeating ? 0 : at;
        if (!vector.noNulls && vector.isNull[row]) {
            text.append('N');
            return;
        }
        List children = type.getChildren();
        switch (type.getCategory()) {
            case FLOAT: {
                float number = (float) ((DoubleColumnVector) vector).vector[row];
                text.append(Float.isNaN(number) ? "nan" : number == 0 ? "0" : Integer.toHexString(Float.floatToIntBits(number)));
                break;
            }
            case DOUBLE: {
                double number = ((DoubleColumnVector) vector).vector[row];
                text.append(Double.isNaN(number) ? "nan" : number == 0 ? "0" : Long.toHexString(Double.doubleToLongBits(number)));
                break;
            }
            case STRING:
            case VARCHAR:
            case CHAR:
            case BINARY: {
                BytesColumnVector bytes = (BytesColumnVector) vector;
                int end = bytes.start[row] + bytes.length[row];
                if (type.getCategory() == TypeDescription.Category.CHAR) {
                    while (end > bytes.start[row] && bytes.vector[row][end - 1] == ' ') {
                        end--;
                    }
                }
                text.append('x');
                for (int i = bytes.start[row]; i < end; i++) {
                    int one = bytes.vector[row][i] & 255;
                    text.append("0123456789abcdef".charAt(one >> 4)).append("0123456789abcdef".charAt(one & 15));
                }
                break;
            }
            case TIMESTAMP:
            case TIMESTAMP_INSTANT: {
                TimestampColumnVector stamp = (TimestampColumnVector) vector;
                long seconds = Math.floorDiv(stamp.time[row], 1000L);
                BigDecimal whole = BigDecimal.valueOf(seconds).multiply(BigDecimal.valueOf(1000000000L));
                text.append(whole.add(BigDecimal.valueOf((long) stamp.nanos[row])).toPlainString());
                break;
            }
            case DECIMAL: {
                HiveDecimal number = ((DecimalColumnVector) vector).vector[row].getHiveDecimal();
                BigDecimal plain = number.bigDecimalValue().stripTrailingZeros();
                text.append(plain.signum() == 0 ? "0" : plain.toPlainString());
                break;
            }
            case LIST: {
                ListColumnVector list = (ListColumnVector) vector;
                text.append('[');
                for (int i = 0; i < list.lengths[row]; i++) {
                    text.append(i > 0 ? "," : "");
                    value(text, (TypeDescription) children.get(0), list.child, (int) list.offsets[row] + i);
                }
                text.append(']');
                break;
            }
            case MAP: {
                MapColumnVector map = (MapColumnVector) vector;
                text.append('{');
                for (int i = 0; i < map.lengths[row]; i++) {
                    text.append(i > 0 ? "," : "");
                    value(text, (TypeDescription) children.get(0), map.keys, (int) map.offsets[row] + i);
                    text.append(':');
                    value(text, (TypeDescription) children.get(1), map.values, (int) map.offsets[row] + i);
                }
                text.append('}');
                break;
            }
            case STRUCT: {
                StructColumnVector struct = (StructColumnVector) vector;
                text.append('(');
                for (int i = 0; i < children.size(); i++) {
                    text.append(i > 0 ? "," : "");
                    value(text, (TypeDescription) children.get(i), struct.fields[i], row);
                }
                text.append(')');
                break;
            }
            case UNION: {
                UnionColumnVector union = (UnionColumnVector) vector;
                int tag = union.tags[row];
                text.append('<').append(tag).append(' ');
                value(text, (TypeDescription) children.get(tag), union.fields[tag], row);
                text.append('>');
                break;
            }
            default:
                text.append(((LongColumnVector) vector).vector[row]);
        }
    }
}
