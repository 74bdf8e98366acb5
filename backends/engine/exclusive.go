package engine

import (
	"context"
	"sync"
)

// exclusive allows one thing at a time for each unit. The zero value is ready; it is safe
// for concurrent use.
type exclusive struct {
	mu    sync.Mutex
	units map[string]chan struct{} // by ID; has one element while the unit is in use
}

// enter waits until the unit is free. Leave may be called more than once.
func (x *exclusive) enter(ctx context.Context, unit string) (leave func(), err error) {
	place := x.place(unit)
	select {
	case place <- struct{}{}:
		return sync.OnceFunc(func() { <-place }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// try is enter without waiting.
func (x *exclusive) try(unit string) (leave func(), ok bool) {
	place := x.place(unit)
	select {
	case place <- struct{}{}:
		return sync.OnceFunc(func() { <-place }), true
	default:
		return nil, false
	}
}

func (x *exclusive) place(unit string) chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.units == nil {
		x.units = map[string]chan struct{}{}
	}
	if x.units[unit] == nil {
		x.units[unit] = make(chan struct{}, 1)
	}
	return x.units[unit]
}
