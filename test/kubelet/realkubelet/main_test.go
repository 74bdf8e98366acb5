package realkubelet

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// program is where kubelet is, or why there is none.
var program struct {
	path string
	err  error
}

func TestMain(m *testing.M) {
	path, remove, err := Program(context.Background(), "..")
	program.path, program.err = path, err
	m.Run()
	if err == nil {
		if err := remove(); err != nil {
			fmt.Fprintln(os.Stderr, "remove kubelet:", err)
		}
	}
}
