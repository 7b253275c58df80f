// Drives the mutex of etcd's own Go client line by line. README.md in the folder above lists the lines.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const (
	// A driver that was killed holds its locks for this long.
	sessionSeconds = 10
	dialTimeout    = 5 * time.Second
)

func main() {
	if err := serve(); err != nil {
		fmt.Println("error", oneLine(err))
		os.Exit(1)
	}
}

// Connects, and answers lines until the input ends.
func serve() error {
	if len(os.Args) != 2 {
		return errors.New("the one argument is the servers: host:port,…")
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   strings.Split(os.Args[1], ","),
		DialTimeout: dialTimeout,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := newSession(client)
	if err != nil {
		return err
	}
	defer session.Close()
	driver := driver{client, session, map[string]*concurrency.Mutex{}}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer, err := driver.answer(context.Background(), strings.Fields(lines.Text()))
		if err != nil {
			answer = "error " + oneLine(err)
		}
		fmt.Println(answer)
	}
	return lines.Err()
}

func newSession(client *clientv3.Client) (*concurrency.Session, error) {
	return concurrency.NewSession(client, concurrency.WithTTL(sessionSeconds))
}

type driver struct {
	client  *clientv3.Client
	session *concurrency.Session
	mutexes map[string]*concurrency.Mutex
}

func (d *driver) answer(ctx context.Context, words []string) (string, error) {
	switch {
	case is(words, "acquire", 1):
		return "held", d.mutex(words[1]).Lock(ctx)
	case is(words, "try", 1):
		return d.try(ctx, words[1])
	case is(words, "release", 1):
		return "released", d.mutex(words[1]).Unlock(ctx)
	case is(words, "queue", 1):
		return d.queue(ctx, words[1])
	case is(words, "storm", 4):
		return d.storm(ctx, words[1], words[2], words[3], words[4])
	case is(words, "bench", 2):
		return bench(ctx, d.client, words[1], words[2])
	}
	return "", fmt.Errorf("no such line: %q", words)
}

func is(words []string, verb string, arguments int) bool {
	return len(words) == 1+arguments && words[0] == verb
}

func (d *driver) mutex(name string) *concurrency.Mutex {
	if _, known := d.mutexes[name]; !known {
		d.mutexes[name] = concurrency.NewMutex(d.session, name)
	}
	return d.mutexes[name]
}

func (d *driver) try(ctx context.Context, name string) (string, error) {
	err := d.mutex(name).TryLock(ctx)
	if errors.Is(err, concurrency.ErrLocked) {
		return "busy", nil
	}
	return "held", err
}

func (d *driver) queue(ctx context.Context, name string) (string, error) {
	all, err := d.client.Get(ctx, name+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return "", err
	}
	return fmt.Sprint("queue ", all.Count), nil
}

// Counts its turns in the number in the file, which nothing but the lock protects.
func (d *driver) storm(ctx context.Context, name, file, seconds, pauseSeconds string) (string, error) {
	length, err := parseSeconds(seconds)
	if err != nil {
		return "", err
	}
	pause, err := parseSeconds(pauseSeconds)
	if err != nil {
		return "", err
	}
	turns := 0
	for end := time.Now().Add(length); time.Now().Before(end); turns++ {
		if err := d.mutex(name).Lock(ctx); err != nil {
			return "", err
		}
		counted := increment(file)
		if err := errors.Join(counted, d.mutex(name).Unlock(ctx)); err != nil {
			return "", err
		}
		time.Sleep(pause)
	}
	return fmt.Sprint("done ", turns), nil
}

// Reads the number, pauses so that an overlap would be seen, and overwrites the number.
func increment(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	time.Sleep(time.Millisecond)
	counter, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(counter, "%10d\n", number+1)
	return errors.Join(err, counter.Close())
}

func parseSeconds(seconds string) (time.Duration, error) {
	length, err := strconv.ParseFloat(seconds, 64)
	return time.Duration(length * float64(time.Second)), err
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
