package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// programs is where the binaries are, or why there are none.
var programs struct {
	dir string
	err error
}

// kubeletLog is what kubelet's code logs; every test starts it afresh.
var kubeletLog sink

func TestMain(m *testing.M) {
	if err := realkubelet.LogTo(&kubeletLog); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet's log stays on standard error:", err)
	}
	dir, remove, err := agent.Binaries(context.Background(), "../..")
	programs.dir, programs.err = dir, err
	m.Run()
	if err == nil {
		if err := remove(); err != nil {
			fmt.Fprintln(os.Stderr, "remove the programs:", err)
		}
	}
}

// sink is a log that can be emptied.
type sink struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

// take returns what was logged and forgets it.
func (s *sink) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.buf.String()
	s.buf.Reset()
	return text
}
