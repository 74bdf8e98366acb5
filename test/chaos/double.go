package main

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// double is the test that a stand-in made for tests believes to be in. What it calls an
// error breaks the run.
type double struct {
	testing.TB // nil: nothing else of it is used
	mu         sync.Mutex
	errors     []string
	cleanups   []func()
}

func (d *double) Helper() {}

func (d *double) Cleanup(f func()) { d.cleanups = append(d.cleanups, f) }

func (d *double) Errorf(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.errors = append(d.errors, fmt.Sprintf(format, args...))
}

// close ends the stand-ins, and says what was wrong.
func (d *double) close() error {
	for _, f := range slices.Backward(d.cleanups) {
		f()
	}
	d.cleanups = nil
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.errors) > 0 {
		return fmt.Errorf("at the stand-in API server: %s", d.errors[0])
	}
	return nil
}
