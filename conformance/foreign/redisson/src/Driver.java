import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;

/** Drives Redisson's locks on one server, or on a cluster, line by line. README.md in the folder above lists the lines. */
public final class Driver {
    /** A driver that was killed holds its locks for this long. Redisson's watchdog renews them every third of it. */
    private static final long LEASE_MILLIS = 10_000;

    private final Turns.Kind kind;
    private final RedissonClient client;
    private final Map<String, Turns> turns = new HashMap<>();

    private Driver(Turns.Kind kind, RedissonClient client) {
        this.kind = kind;
        this.client = client;
    }

    public static void main(String[] arguments) {
        PrintStream answers = System.out;
        // Standard output is for answers only; everything else that is printed goes to standard error.
        System.setOut(System.err);
        try {
            serve(arguments, answers);
            // Redisson's threads keep the process alive.
            System.exit(0);
        } catch (Exception e) {
            answers.println("error " + oneLine(e));
            System.exit(1);
        }
    }

    /** Connects, and answers lines until the input ends. */
    private static void serve(String[] arguments, PrintStream answers) throws Exception {
        if (arguments.length != 2) {
            throw new IllegalArgumentException("two arguments: the server (host:port) or a cluster's members (host:port,...), and lock, fenced, spin or fair");
        }
        Turns.Kind kind = Turns.Kind.valueOf(arguments[1].toUpperCase(Locale.ROOT));
        Driver driver = new Driver(kind, Redisson.create(config(arguments[0])));
        answers.println("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(driver.answerOrError(line.trim().split(" +")));
        }
    }

    private static Config config(String servers) {
        Config config = new Config();
        config.setLockWatchdogTimeout(LEASE_MILLIS);
        // One lock at a time needs few connections.
        if (servers.contains(",")) {
            config.useClusterServers()
                    .addNodeAddress(Arrays.stream(servers.split(",")).map(Driver::url).toArray(String[]::new))
                    .setReadMode(ReadMode.MASTER)
                    .setMasterConnectionMinimumIdleSize(1)
                    .setMasterConnectionPoolSize(4);
        } else {
            config.useSingleServer()
                    .setAddress(url(servers))
                    .setConnectionMinimumIdleSize(1)
                    .setConnectionPoolSize(4);
        }
        return config;
    }

    private static String url(String server) {
        return "redis://" + server;
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
                return "held" + turns(words[1]).acquire();
            case "try 1":
                String held = turns(words[1]).attempt();
                return held == null ? "busy" : "held" + held;
            case "release 1":
                turns(words[1]).release();
                return "released";
            case "storm 4":
                double seconds = Double.parseDouble(words[3]);
                double pause = Double.parseDouble(words[4]);
                return "done " + storm(turns(words[1]), Path.of(words[2]), seconds, pause);
            default:
                throw new IllegalArgumentException("no such line: " + Arrays.toString(words));
        }
    }

    private Turns turns(String encoded) {
        String name = URLDecoder.decode(encoded, StandardCharsets.UTF_8);
        return turns.computeIfAbsent(name, unknown -> Turns.of(kind, client, name));
    }

    /** Counts its turns in the number in the file, which nothing but the lock protects. */
    private static int storm(Turns turns, Path file, double seconds, double pause) throws Exception {
        int count = 0;
        for (long end = System.nanoTime() + (long) (seconds * 1e9); System.nanoTime() - end < 0; count++) {
            turns.acquire();
            try {
                increment(file);
            } finally {
                turns.release();
            }
            Thread.sleep((long) (pause * 1e3));
        }
        return count;
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
