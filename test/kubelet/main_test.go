package kubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// programs is where the binaries are, ours in dir, or why there are none.
var programs struct {
	dir, kubelet string
	err          error
}

// kubeletLog is what kubelets log; every test starts it afresh.
var kubeletLog sink

func TestMain(m *testing.M) {
	ctx := context.Background()
	dir, removeDir, err := agent.Binaries(ctx, "../..")
	program, removeProgram, kubeletErr := realkubelet.Program(ctx, ".")
	programs.dir, programs.kubelet, programs.err = dir, program, errors.Join(err, kubeletErr)
	m.Run()
	for _, remove := range []func() error{removeDir, removeProgram} {
		if remove == nil {
			continue
		}
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
