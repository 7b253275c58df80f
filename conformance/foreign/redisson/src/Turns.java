import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** One of Redisson's locks, of any kind. */
interface Turns {
    /** The kinds of lock, as the second argument of the driver names them. */
    enum Kind {
        LOCK,
        FENCED,
        SPIN,
        FAIR
    }

    /** Waits for the lock. Returns a space and its token, or nothing if this kind has no token. */
    String acquire();

    /** Returns the same, or {@code null} if another holder has the lock. */
    String attempt();

    /** Throws an exception if the lock was lost before. */
    void release();

    static Turns of(Kind kind, RedissonClient client, String name) {
        switch (kind) {
            case LOCK:
                return plain(client.getLock(name));
            case SPIN:
                return plain(client.getSpinLock(name));
            case FAIR:
                return plain(client.getFairLock(name));
            default:
                return fenced(client.getFencedLock(name));
        }
    }

    private static Turns plain(RLock lock) {
        return new Turns() {
            @Override
            public String acquire() {
                lock.lock();
                return "";
            }

            @Override
            public String attempt() {
                return lock.tryLock() ? "" : null;
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }

    private static Turns fenced(RFencedLock lock) {
        return new Turns() {
            @Override
            public String acquire() {
                return " " + lock.lockAndGetToken();
            }

            @Override
            public String attempt() {
                // Without a limit this call waits for the lock, in Redisson 4.7.0.
                Long token = lock.tryLockAndGetToken(0, TimeUnit.MILLISECONDS);
                return token == null ? null : " " + token;
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }
}
