import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.KeeperException;

/** Drives Curator's mutex line by line. README.md in the folder above lists the lines. */
public final class Driver {
    /** A driver that was killed holds its locks for this long. */
    private static final int SESSION_MILLIS = 10_000;

    private static final int CONNECTION_MILLIS = 10_000;

    private final CuratorFramework client;
    private final Map<String, InterProcessMutex> mutexes = new HashMap<>();

    private Driver(CuratorFramework client) {
        this.client = client;
    }

    public static void main(String[] arguments) {
        PrintStream answers = System.out;
        // Standard output is for answers only; everything else that is printed goes to standard error.
        System.setOut(System.err);
        try {
            serve(arguments, answers);
        } catch (Exception e) {
            answers.println("error " + oneLine(e));
            System.exit(1);
        }
    }

    /** Connects, and answers lines until the input ends. */
    private static void serve(String[] arguments, PrintStream answers) throws Exception {
        if (arguments.length != 1) {
            throw new IllegalArgumentException("the one argument is the servers: host:port,…");
        }
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(
                arguments[0], SESSION_MILLIS, CONNECTION_MILLIS, new ExponentialBackoffRetry(50, 3))) {
            client.start();
            if (!client.blockUntilConnected(CONNECTION_MILLIS, TimeUnit.MILLISECONDS)) {
                throw new IllegalStateException("no connection to " + arguments[0]);
            }
            Driver driver = new Driver(client);
            answers.println("ready");
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                answers.println(driver.answerOrError(line.trim().split(" +")));
            }
        }
    }

    private String answerOrError(String[] words) {
        try {
            return answer(words);
        } catch (Exception e) {
            return "error " + oneLine(e);
        }
    }

    private String answer(String[] words) throws Exception {
        switch (words[0] + " " + (words.length - 1)) {
            case "acquire 1":
                mutex(words[1]).acquire();
                return "held";
            case "try 1":
                return mutex(words[1]).acquire(0, TimeUnit.MILLISECONDS) ? "held" : "busy";
            case "release 1":
                mutex(words[1]).release();
                return "released";
            case "queue 1":
                return "queue " + queue(words[1]);
            case "storm 4":
                double seconds = Double.parseDouble(words[3]);
                double pause = Double.parseDouble(words[4]);
                return "done " + storm(mutex(words[1]), Path.of(words[2]), seconds, pause);
            case "bench 2":
                return Bench.run(client, words[1], Double.parseDouble(words[2]));
            default:
                throw new IllegalArgumentException("no such line: " + Arrays.toString(words));
        }
    }

    private InterProcessMutex mutex(String path) {
        return mutexes.computeIfAbsent(path, unknown -> new InterProcessMutex(client, path));
    }

    private int queue(String path) throws Exception {
        try {
            return client.getChildren().forPath(path).size();
        } catch (KeeperException.NoNodeException e) {
            return 0;
        }
    }

    /** Counts its turns in the number in the file, which nothing but the lock protects. */
    private static int storm(InterProcessMutex mutex, Path file, double seconds, double pause)
            throws Exception {
        int turns = 0;
        for (long end = System.nanoTime() + (long) (seconds * 1e9); System.nanoTime() - end < 0; turns++) {
            mutex.acquire();
            try {
                increment(file);
            } finally {
                mutex.release();
            }
            Thread.sleep((long) (pause * 1e3));
        }
        return turns;
    }

    /** Reads the number, pauses so that an overlap would be seen, and overwrites the number. */
    private static void increment(Path file) throws Exception {
        int number = Integer.parseInt(Files.readString(file).trim());
        Thread.sleep(1);
        Files.writeString(file, String.format(Locale.ROOT, "%10d\n", number + 1), StandardOpenOption.WRITE);
    }

    private static String oneLine(Exception e) {
        return e.toString().replaceAll("\\s+", " ");
    }
}
