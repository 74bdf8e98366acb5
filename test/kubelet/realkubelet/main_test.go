package realkubelet

import (
	"io"
	"testing"
)

func TestMain(m *testing.M) {
	LogTo(io.Discard)
	m.Run()
}
