import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Drives Curator's InterProcessMutex. All names share one session. */
public final class Main {
    private static final int SESSION_MILLIS = 30_000;

    private static final int CONNECTION_MILLIS = 10_000;

    private Main() {}

    public static void main(String[] arguments) {
        Driver.drive(Main::connect);
    }

    private static List<Driver.Lock> connect(String subject, String[] names, String url) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                hosts(url), SESSION_MILLIS, CONNECTION_MILLIS, new ExponentialBackoffRetry(50, 3));
        client.start();
        if (!client.blockUntilConnected(CONNECTION_MILLIS, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("no connection");
        }
        List<Driver.Lock> locks = new ArrayList<>();
        for (String name : names) {
            locks.add(lock(new InterProcessMutex(client, "/lock-bench-peers/" + name)));
        }
        return locks;
    }

    /** Returns the servers that a URL such as zk://host:port,host:port/ names. */
    private static String hosts(String url) {
        return url.substring(url.indexOf("://") + 3).split("/")[0];
    }

    private static Driver.Lock lock(InterProcessMutex mutex) {
        return new Driver.Lock() {
            @Override
            public void acquire() throws Exception {
                mutex.acquire();
            }

            @Override
            public void release() throws Exception {
                mutex.release();
            }
        };
    }
}
