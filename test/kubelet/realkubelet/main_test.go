package realkubelet

import (
	"fmt"
	"io"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if err := LogTo(io.Discard); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet's log stays on standard error:", err)
	}
	m.Run()
}
