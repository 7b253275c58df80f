// The part of a Go driver that is the same for every lock. README.md in the folder above describes the lines.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A lock of one name.
type lock interface {
	Lock(ctx context.Context) error
	Unlock(ctx context.Context) error
}

// How many lines are read before their turn.
const readAhead = 16

// How long an answer may take after the input has ended: the process that wants it may be gone.
const grace = 10 * time.Second

// A driver calls this as its main function, with a function that connects and returns a lock for each name.
func drive(connect func(ctx context.Context, names []string, url string) ([]lock, error)) {
	if err := serve(context.Background(), connect); err != nil {
		fmt.Println("failed", oneLine(err))
		os.Exit(1)
	}
}

func serve(ctx context.Context, connect func(context.Context, []string, string) ([]lock, error)) error {
	lines := make(chan string, readAhead)
	go read(lines)
	var head [3]string
	for n := range head {
		line, more := <-lines
		if !more {
			return errors.New("the input has ended before the subject, the names and the URL")
		}
		head[n] = line
	}
	locks, err := connect(ctx, strings.Fields(head[1]), head[2])
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for line := range lines {
		reply, err := obey(ctx, locks, strings.Fields(line))
		if err != nil {
			reply = "failed " + oneLine(err)
		}
		fmt.Println(reply)
	}
	return nil
}

// Reads lines before their turn, so that the end of the input is seen while an answer takes long. Then this process
// ends, even if it waits for a lock.
func read(lines chan<- string) {
	input := bufio.NewReader(os.Stdin)
	for {
		line, err := input.ReadString('\n')
		if err != nil {
			break
		}
		lines <- strings.TrimSpace(line)
	}
	time.AfterFunc(grace, func() { os.Exit(1) })
	close(lines)
}

func obey(ctx context.Context, locks []lock, words []string) (string, error) {
	switch {
	case len(words) == 1 && words[0] == "acquire":
		err := locks[0].Lock(ctx)
		return fmt.Sprint("granted ", now()), err
	case len(words) == 1 && words[0] == "release":
		began := now()
		err := locks[0].Unlock(ctx)
		return fmt.Sprint("released ", began), err
	case len(words) == 2 && words[0] == "cycle":
		nanos, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return "", err
		}
		return cycle(ctx, locks, time.Duration(nanos))
	}
	return "", fmt.Errorf("no such order: %q", words)
}

// Takes and releases all locks again and again, each in a goroutine of its own.
func cycle(ctx context.Context, locks []lock, length time.Duration) (string, error) {
	works := make([]work, len(locks))
	end := time.Now().Add(length)
	var running sync.WaitGroup
	for n, lock := range locks {
		running.Add(1)
		go func() {
			defer running.Done()
			works[n].do(ctx, lock, end)
		}()
	}
	running.Wait()
	reply := strings.Builder{}
	reply.WriteString("competed")
	for _, work := range works {
		if work.err != nil {
			return "", work.err
		}
		work.write(&reply)
	}
	return reply.String(), nil
}

// What one goroutine did.
type work struct {
	// How many cycles ended in time.
	inTime int
	cycles []time.Duration
	err    error
}

func (w *work) do(ctx context.Context, lock lock, end time.Time) {
	for began := time.Now(); began.Before(end); {
		if w.err = lock.Lock(ctx); w.err != nil {
			return
		}
		if w.err = lock.Unlock(ctx); w.err != nil {
			return
		}
		done := time.Now()
		w.cycles = append(w.cycles, done.Sub(began))
		if !done.After(end) {
			w.inTime++
		}
		began = done
	}
}

// Writes " 2:10,20,30": two cycles in time, and the length of three, in nanoseconds.
func (w *work) write(reply *strings.Builder) {
	fmt.Fprintf(reply, " %d:", w.inTime)
	separator := ""
	for _, cycle := range w.cycles {
		reply.WriteString(separator)
		reply.WriteString(strconv.FormatInt(cycle.Nanoseconds(), 10))
		separator = ","
	}
}

// Returns the time of the machine's monotonic clock, in nanoseconds. The benchmark reads the same clock.
func now() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
