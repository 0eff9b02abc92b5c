package orcidx.interop;

import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.deletionvectors.Bitmap64DeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.fileindex.FileIndexPredicate;
import org.apache.paimon.fileindex.FileIndexResult;
import org.apache.paimon.fileindex.bitmap.BitmapIndexResult;
import org.apache.paimon.format.FileFormat;
import org.apache.paimon.format.FormatReaderContext;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.index.DeletionVectorMeta;
import org.apache.paimon.index.GlobalIndexMeta;
import org.apache.paimon.index.HashIndexFile;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.FieldRef;
import org.apache.paimon.predicate.SortValue;
import org.apache.paimon.predicate.TopN;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.DeletionFile;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.CloseableIterator;
import org.apache.paimon.utils.IntIterator;
import org.apache.paimon.utils.RoaringBitmap32;

/** Reads files of other writers with Paimon's own readers, and commits such files to Paimon's tables. */
public final class PaimonIndexBridge {

    /** Each line of `questions` has a column, an operation and literals, joined by U+001F. Returns a line for each. */
    public static String answers(Object container, RowType type, String questions) throws Exception {
        FileIndexPredicate index = open(container, type);
        StringBuilder text = new StringBuilder();
        String[] lines = questions.split("\n");
        for (int i = 0; i < lines.length; i++) {
            List fields = new ArrayList(Arrays.asList(lines[i].split("\u001f", -1)));
            String column = (String) fields.remove(0);
            String operation = (String) fields.remove(0);
            append(text, index.evaluate(PaimonBridge.leaf(type, column, operation, fields)));
        }
        index.close();
        return text.toString();
    }

    /** Returns the rows of TopN, within a selection unless it is null. With one sort column, TopN is strict. */
    public static String top(
            Object container,
            RowType type,
            String column,
            Boolean descending,
            Boolean nullsFirst,
            Integer k,
            Boolean strict,
            String selection)
            throws Exception {
        int at = type.getFieldIndex(column);
        SortValue order =
                new SortValue(
                        new FieldRef(at, column, type.getTypeAt(at)),
                        descending ? SortValue.SortDirection.DESCENDING : SortValue.SortDirection.ASCENDING,
                        nullsFirst ? SortValue.NullOrdering.NULLS_FIRST : SortValue.NullOrdering.NULLS_LAST);
        List orders = strict ? Collections.singletonList(order) : Arrays.asList(new Object[] {order, order});
        final RoaringBitmap32 rows = new RoaringBitmap32();
        FileIndexResult given = FileIndexResult.REMAIN;
        if (selection != null) {
            String[] positions = selection.trim().isEmpty() ? new String[0] : selection.trim().split(" ");
            for (int i = 0; i < positions.length; i++) {
                rows.add(Integer.parseInt(positions[i]));
            }
            given =
                    new BitmapIndexResult(
                            new Supplier() {
                                public Object get() {
                                    return rows;
                                }
                            });
        }
        FileIndexPredicate index = open(container, type);
        StringBuilder text = new StringBuilder();
        append(text, index.evaluateTopN(new TopN(orders, k.intValue()), given));
        index.close();
        return text.toString();
    }

    private static FileIndexPredicate open(Object container, RowType type) throws Exception {
        return container instanceof String
                ? new FileIndexPredicate(new Path((String) container), LocalFileIO.create(), type)
                : new FileIndexPredicate((byte[]) container, type);
    }

    private static void append(StringBuilder text, FileIndexResult result) {
        if (result.remain() && result instanceof BitmapIndexResult) {
            text.append("ROWS");
            Iterator positions = ((RoaringBitmap32) ((BitmapIndexResult) result).get()).iterator();
            while (positions.hasNext()) {
                text.append(' ').append(positions.next());
            }
        } else {
            text.append(result.remain() ? "REMAIN" : "SKIP");
        }
        text.append('\n');
    }

    /** Returns the kind of a deletion vector, its number of positions, and the candidates that it contains. */
    public static String deleted(String file, Number offset, Number length, Number count, String candidates)
            throws Exception {
        DeletionFile range = new DeletionFile(file, offset.longValue(), length.longValue(), new Long(count.longValue()));
        DeletionVector vector = DeletionVector.read(LocalFileIO.create(), range);
        StringBuilder text = new StringBuilder(vector instanceof Bitmap64DeletionVector ? "64" : "32");
        text.append(' ').append(vector.getCardinality());
        String[] positions = candidates.trim().isEmpty() ? new String[0] : candidates.trim().split(" ");
        for (int i = 0; i < positions.length; i++) {
            if (vector.isDeleted(Long.parseLong(positions[i]))) {
                text.append(' ').append(positions[i]);
            }
        }
        return text.toString();
    }

    /** Returns the hashes of a hash index file in the table's index folder. */
    public static String hashes(FileStoreTable table, String name) throws Exception {
        HashIndexFile files = table.store().newIndexFileHandler().hashIndex(partition(table), 0);
        long size = new File(table.location().toUri().getPath() + "/index/" + name).length();
        IndexFileMeta file =
                new IndexFileMeta("HASH", name, size, size / 4, (LinkedHashMap) null, null, (GlobalIndexMeta) null);
        int[] hashes = IntIterator.toInts(files.read(file));
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < hashes.length; i++) {
            text.append(hashes[i]).append(' ');
        }
        return text.toString();
    }

    /** Returns the hash of each row of an ORC file, as a key. */
    public static String keyHashes(RowType type, String orcFile) throws Exception {
        Path path = new Path(orcFile);
        LocalFileIO io = LocalFileIO.create();
        CloseableIterator rows =
                FileFormat.fromIdentifier("orc", new Options())
                        .createReaderFactory(type, type, Collections.EMPTY_LIST)
                        .createReader(new FormatReaderContext(io, path, io.getFileSize(path)))
                        .toCloseableIterator();
        InternalRowSerializer serializer = new InternalRowSerializer(type);
        StringBuilder text = new StringBuilder();
        while (rows.hasNext()) {
            text.append(serializer.toBinaryRow((InternalRow) rows.next()).hashCode()).append(' ');
        }
        rows.close();
        return text.toString();
    }

    /** Gives each data file its index. `indexes` maps file names to bytes to embed, or to the name of a sidecar. */
    public static void commitFileIndexes(FileStoreTable table, Map indexes) throws Exception {
        List messages = new ArrayList();
        List splits = table.newReadBuilder().newScan().plan().splits();
        for (int i = 0; i < splits.size(); i++) {
            DataSplit split = (DataSplit) splits.get(i);
            List before = new ArrayList();
            List after = new ArrayList();
            for (int j = 0; j < split.dataFiles().size(); j++) {
                DataFileMeta file = (DataFileMeta) split.dataFiles().get(j);
                Object index = indexes.get(file.fileName());
                before.add(file);
                after.add(
                        index instanceof String
                                ? file.copy(Collections.singletonList(index)).copy((byte[]) null)
                                : file.copy(Collections.EMPTY_LIST).copy((byte[]) index));
            }
            messages.add(
                    new CommitMessageImpl(
                            split.partition(),
                            split.bucket(),
                            split.totalBuckets(),
                            DataIncrement.emptyIncrement(),
                            new CompactIncrement(before, after, Collections.EMPTY_LIST)));
        }
        commit(table, messages);
    }

    /** Commits deletion vectors. A line: index file, data file, offset, length, cardinality, joined by U+001F. */
    public static void commitDeletions(FileStoreTable table, String folder, String ranges) throws Exception {
        Map files = new LinkedHashMap();
        String[] lines = ranges.split("\n");
        for (int i = 0; i < lines.length; i++) {
            String[] fields = lines[i].split("\u001f");
            LinkedHashMap ofFile = (LinkedHashMap) files.get(fields[0]);
            if (ofFile == null) {
                ofFile = new LinkedHashMap();
                files.put(fields[0], ofFile);
            }
            ofFile.put(
                    fields[1],
                    new DeletionVectorMeta(
                            fields[1], Integer.parseInt(fields[2]), Integer.parseInt(fields[3]), Long.valueOf(fields[4])));
        }
        List added = new ArrayList();
        Iterator names = files.keySet().iterator();
        while (names.hasNext()) {
            String name = (String) names.next();
            LinkedHashMap ofFile = (LinkedHashMap) files.get(name);
            added.add(
                    new IndexFileMeta(
                            "DELETION_VECTORS", name, new File(folder, name).length(), ofFile.size(), ofFile, null,
                            (GlobalIndexMeta) null));
        }
        List removed = new ArrayList();
        List entries = table.store().newIndexFileHandler().scanEntries();
        for (int i = 0; i < entries.size(); i++) {
            IndexFileMeta file = ((IndexManifestEntry) entries.get(i)).indexFile();
            if (file.indexType().equals("DELETION_VECTORS")) {
                removed.add(file);
            }
        }
        DataSplit split = (DataSplit) table.newReadBuilder().newScan().plan().splits().get(0);
        List none = Collections.EMPTY_LIST;
        DataIncrement increment = new DataIncrement(none, none, none, added, removed);
        commit(
                table,
                Collections.singletonList(
                        new CommitMessageImpl(
                                split.partition(), split.bucket(), split.totalBuckets(), increment,
                                CompactIncrement.emptyIncrement())));
    }

    private static org.apache.paimon.data.BinaryRow partition(FileStoreTable table) {
        return ((DataSplit) table.newReadBuilder().newScan().plan().splits().get(0)).partition();
    }

    private static void commit(FileStoreTable table, List messages) throws Exception {
        BatchTableCommit commit = table.newBatchWriteBuilder().newCommit();
        commit.commit(messages);
        commit.close();
    }
}
