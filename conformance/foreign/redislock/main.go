// The lock of bsm/redislock.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// How often it tries. That and the limit of the wait are what redislock's documentation tells users to give.
const (
	pauseOfWaiters = 100 * time.Millisecond
	longestWait    = 5 * time.Minute
)

func main() {
	drive(func(client *redis.Client) locks {
		return &keys{redislock.New(client), map[string]*redislock.Lock{}}
	})
}

type keys struct {
	client *redislock.Client
	held   map[string]*redislock.Lock
}

// Without a deadline, redislock gives up when the lease that it asks for would be over.
func (k *keys) acquire(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	options := redislock.Options{RetryStrategy: redislock.LinearBackoff(pauseOfWaiters)}
	return k.obtain(ctx, name, &options)
}

func (k *keys) try(ctx context.Context, name string) error {
	err := k.obtain(ctx, name, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return errBusy
	}
	return err
}

func (k *keys) obtain(ctx context.Context, name string, options *redislock.Options) error {
	lock, err := k.client.Obtain(ctx, name, lease, options)
	if err == nil {
		k.held[name] = lock
	}
	return err
}

func (k *keys) release(ctx context.Context, name string) error {
	lock, held := k.held[name]
	if !held {
		return errors.New("it is not held")
	}
	delete(k.held, name)
	return lock.Release(ctx)
}
