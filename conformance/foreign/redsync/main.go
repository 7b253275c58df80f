// The mutex of redsync on one server.
package main

import (
	"context"
	"errors"
	"math"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func main() {
	drive(func(client *redis.Client) locks {
		return &mutexes{redsync.New(goredis.NewPool(client)), map[string]*redsync.Mutex{}}
	})
}

type mutexes struct {
	maker *redsync.Redsync
	held  map[string]*redsync.Mutex
}

// Without the number of tries, redsync gives up after 32.
func (m *mutexes) acquire(ctx context.Context, name string) error {
	mutex := m.maker.NewMutex(name, redsync.WithExpiry(lease), redsync.WithTries(math.MaxInt))
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	m.held[name] = mutex
	return nil
}

func (m *mutexes) try(ctx context.Context, name string) error {
	mutex := m.maker.NewMutex(name, redsync.WithExpiry(lease))
	err := mutex.TryLockContext(ctx)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) {
		return errBusy
	}
	if err == nil {
		m.held[name] = mutex
	}
	return err
}

func (m *mutexes) release(ctx context.Context, name string) error {
	mutex, held := m.held[name]
	if !held {
		return errors.New("it is not held")
	}
	delete(m.held, name)
	released, err := mutex.UnlockContext(ctx)
	if err == nil && !released {
		return errors.New("it was lost before")
	}
	return err
}
