import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Drives the locks of Redisson on one server, with its defaults: a lease of 30 seconds, which its watchdog renews. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) {
        Driver.drive(Main::connect);
    }

    private static List<Driver.Lock> connect(String subject, String[] names, String url) {
        RedissonClient client = Redisson.create(config(URI.create(url)));
        List<Driver.Lock> locks = new ArrayList<>();
        for (String name : names) {
            locks.add(lock(client, subject, name));
        }
        return locks;
    }

    /** Redisson's address is a URL without the database, such as the 2 of redis://host:port/2. */
    private static Config config(URI url) {
        Config config = new Config();
        String database = url.getPath().replace("/", "");
        config.useSingleServer()
                .setAddress(url.getScheme() + "://" + url.getRawAuthority())
                .setDatabase(database.isEmpty() ? 0 : Integer.parseInt(database));
        return config;
    }

    private static Driver.Lock lock(RedissonClient client, String subject, String name) {
        switch (subject) {
            case "redisson-lock":
                return plain(client.getLock(name));
            case "redisson-fair":
                return plain(client.getFairLock(name));
            case "redisson-fenced":
                return fenced(client.getFencedLock(name));
            default:
                throw new IllegalArgumentException("no such subject: " + subject);
        }
    }

    private static Driver.Lock plain(RLock lock) {
        return new Driver.Lock() {
            @Override
            public void acquire() {
                lock.lock();
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }

    private static Driver.Lock fenced(RFencedLock lock) {
        return new Driver.Lock() {
            @Override
            public void acquire() {
                if (lock.lockAndGetToken() == null) {
                    throw new IllegalStateException("there is no token");
                }
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }
}
