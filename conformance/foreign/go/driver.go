// Drives a lock on one Redis server line by line. README.md in the folder above lists the lines.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A driver that was killed holds its locks for this long.
const lease = 10 * time.Second

var errBusy = errors.New("another holder has it")

// The locks of a library, by name. One lock of each name is held at most.
type locks interface {
	// Waits for the lock.
	acquire(ctx context.Context, name string) error
	// Returns errBusy if another holder has the lock.
	try(ctx context.Context, name string) error
	// Returns an error if the lock was lost before.
	release(ctx context.Context, name string) error
}

// Runs a driver, which ends when its input ends.
func drive(of func(*redis.Client) locks) {
	if err := serve(of); err != nil {
		fmt.Println("error", oneLine(err))
		os.Exit(1)
	}
}

// Connects, and answers lines until the input ends.
func serve(of func(*redis.Client) locks) error {
	if len(os.Args) != 2 {
		return errors.New("the one argument is the server: host:port")
	}
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: os.Args[1]})
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return err
	}
	locks := of(client)
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer, err := answer(ctx, locks, strings.Fields(lines.Text()))
		if err != nil {
			answer = "error " + oneLine(err)
		}
		fmt.Println(answer)
	}
	return lines.Err()
}

func answer(ctx context.Context, locks locks, words []string) (string, error) {
	if len(words) < 2 {
		return "", fmt.Errorf("no such line: %q", words)
	}
	name, err := url.PathUnescape(words[1])
	if err != nil {
		return "", err
	}
	switch {
	case is(words, "acquire", 1):
		return "held", locks.acquire(ctx, name)
	case is(words, "try", 1):
		err := locks.try(ctx, name)
		if errors.Is(err, errBusy) {
			return "busy", nil
		}
		return "held", err
	case is(words, "release", 1):
		return "released", locks.release(ctx, name)
	case is(words, "storm", 4):
		return storm(ctx, locks, name, words[2], words[3], words[4])
	}
	return "", fmt.Errorf("no such line: %q", words)
}

func is(words []string, verb string, arguments int) bool {
	return len(words) == 1+arguments && words[0] == verb
}

// Counts its turns in the number in the file, which nothing but the lock protects.
func storm(ctx context.Context, locks locks, name, file, seconds, pauseSeconds string) (string, error) {
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
		if err := locks.acquire(ctx, name); err != nil {
			return "", err
		}
		counted := increment(file)
		if err := errors.Join(counted, locks.release(ctx, name)); err != nil {
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
