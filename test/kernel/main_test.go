package kernel

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/kernel/machine"
)

// m is the machine that the scenarios share, one after another. Each leaves it as it found it.
var m *machine.Machine

func TestMain(tests *testing.M) {
	code, err := run(tests)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(tests *testing.M) (int, error) {
	dir, keep := os.LookupEnv("KEEP")
	if !keep {
		var err error
		if dir, err = os.MkdirTemp("", "kernel"); err != nil {
			return 0, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
	}
	began := time.Now()
	var err error
	if m, err = machine.Start(context.Background(), dir, keep); err != nil {
		return 0, err
	}
	if !keep {
		defer m.Stop()
	}
	if keep {
		if err := m.Update(os.Getenv("BIN")); err != nil {
			return 0, err
		}
	}
	fmt.Printf("%6.1f s until the machine answers\n", time.Since(began).Seconds())
	return tests.Run(), nil
}
