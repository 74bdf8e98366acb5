//go:build !linux || !amd64

package agent

import "testing"

func TestClockStepped(t *testing.T) {
	t.Skip("how a process's clock is stepped is known here only for Linux on x86-64") //nolint:forbidigo // it is by design
}
