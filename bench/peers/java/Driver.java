import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;

/** The part of a Java driver that is the same for every lock. README.md in the folder above describes the lines. */
final class Driver {
    /** A lock of one name. The thread that acquired it releases it. */
    interface Lock {
        void acquire() throws Exception;

        void release() throws Exception;
    }

    /** Connects to the server, and returns one lock for each name. */
    interface Connector {
        List<Lock> connect(String subject, String[] names, String url) throws Exception;
    }

    /** How long an answer may take after the input has ended: the process that wants it may be gone. */
    private static final long GRACE_MILLIS = 10_000;

    private final List<Lock> locks;
    /** One for each lock. */
    private final ExecutorService threads;

    private Driver(List<Lock> locks) {
        this.locks = locks;
        this.threads = Executors.newFixedThreadPool(locks.size());
    }

    /** A driver calls this as its main function. It does not return. */
    static void drive(Connector connector) {
        PrintStream replies = System.out;
        // Standard output is for replies only; everything else that is printed goes to standard error.
        System.setOut(System.err);
        try {
            serve(connector, replies);
            System.exit(0);
        } catch (Exception e) {
            replies.println("failed " + oneLine(e));
            System.exit(1);
        }
    }

    private static void serve(Connector connector, PrintStream replies) throws Exception {
        BlockingQueue<Optional<String>> lines = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(lines));
        reader.setDaemon(true);
        reader.start();
        String subject = next(lines);
        String[] names = next(lines).split(" ");
        Driver driver = new Driver(connector.connect(subject, names, next(lines)));
        replies.println("ready");
        for (Optional<String> line = lines.take(); line.isPresent(); line = lines.take()) {
            replies.println(driver.obeyOrFail(line.get().trim()));
        }
    }

    private static String next(BlockingQueue<Optional<String>> lines) throws Exception {
        return lines.take().orElseThrow(
                () -> new IOException("the input has ended before the subject, the names and the URL"));
    }

    /**
     * Reads lines before their turn, so that the end of the input is seen while an answer takes long. Then this process
     * ends, even if it waits for a lock.
     */
    private static void read(BlockingQueue<Optional<String>> lines) {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                lines.add(Optional.of(line));
            }
            lines.add(Optional.empty());
            Thread.sleep(GRACE_MILLIS);
        } catch (IOException | InterruptedException e) {
            System.err.println(e);
        }
        Runtime.getRuntime().halt(1);
    }

    private String obeyOrFail(String order) {
        try {
            return obey(order);
        } catch (Exception e) {
            return "failed " + oneLine(e);
        }
    }

    private String obey(String order) throws Exception {
        if (order.equals("acquire")) {
            locks.get(0).acquire();
            return "granted " + System.nanoTime();
        }
        if (order.equals("release")) {
            // On Linux, this is the monotonic clock, which the benchmark reads, too.
            long began = System.nanoTime();
            locks.get(0).release();
            return "released " + began;
        }
        if (order.startsWith("cycle ")) {
            return cycle(Long.parseLong(order.substring("cycle ".length())));
        }
        throw new IllegalArgumentException("no such order: " + order);
    }

    /** Takes and releases all locks again and again, each in a thread of its own. */
    private String cycle(long nanos) throws Exception {
        long end = System.nanoTime() + nanos;
        List<Future<String>> works = new ArrayList<>();
        for (Lock lock : locks) {
            works.add(threads.submit(() -> work(lock, end)));
        }
        StringBuilder reply = new StringBuilder("competed");
        Exception failure = null;
        // All of them have to end, so that the next order begins with none of them.
        for (Future<String> work : works) {
            try {
                reply.append(' ').append(work.get());
            } catch (ExecutionException e) {
                failure = e;
            }
        }
        if (failure != null) {
            throw failure;
        }
        return reply.toString();
    }

    /** Returns "2:10,20,30": two cycles in time, and the length of three, in nanoseconds. */
    private static String work(Lock lock, long end) throws Exception {
        StringBuilder cycles = new StringBuilder();
        int inTime = 0;
        for (long began = System.nanoTime(); began - end < 0; ) {
            lock.acquire();
            lock.release();
            long done = System.nanoTime();
            cycles.append(cycles.length() == 0 ? "" : ",").append(done - began);
            if (done - end <= 0) {
                inTime++;
            }
            began = done;
        }
        return inTime + ":" + cycles;
    }

    /** Returns what went wrong and, if that is something else, what caused it in the first place. */
    private static String oneLine(Exception e) {
        Throwable error = e instanceof ExecutionException && e.getCause() != null ? e.getCause() : e;
        Throwable cause = error;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        String text = cause == error ? error.toString() : error + ", because of " + cause;
        return text.replaceAll("\\s+", " ");
    }
}
