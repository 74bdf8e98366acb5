package sdk

import (
	"os"
	"testing"
	"time"
)

// The wait for a parent that runs ends with stop. A parent that has changed is noticed by
// polling, too. The rule parent-lost of accelmux check-backend has the kernel report it.
func TestParent(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	if over, ok := awaitEnd(os.Getppid(), stop); over {
		t.Errorf("our parent has ended (%t)", ok)
	}
	if awaitOther(os.Getppid(), time.Hour, stop) {
		t.Error("our parent is another one")
	}
	if !awaitOther(-1, time.Hour, nil) {
		t.Error("a parent that is another one was not noticed")
	}
	if over, ok := awaitEnd(-1, nil); over || ok {
		t.Errorf("of no process the kernel says %t", over)
	}
}
