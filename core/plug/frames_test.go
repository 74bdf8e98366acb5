package plug

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// frame is one of a kind with so many bytes, after RFC 9113, section 4.1.
func frame(kind byte, size int) []byte {
	return append([]byte{byte(size >> 16), byte(size >> 8), byte(size), kind, 0, 0, 0, 0, 1}, make([]byte, size)...)
}

// Verifies that frames are counted however they are split over reads, that data never breaks a limit, and that frames
// without data do when they are too many, but not in the long run at the limit.
func TestFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFrames()
		ctx, end := context.WithCancel(t.Context())
		defer end()
		c := &frameConn{frames: f, open: ctx, end: end}
		read := func(wire []byte) (data int, err error) {
			for len(wire) > 0 && err == nil {
				n := min(len(wire), 1+rand.IntN(20))
				var more int
				more, err = c.count(wire[:n])
				data, wire = data+more, wire[n:]
			}
			return data, err
		}
		for second := range 3 {
			for range controlRate {
				if n, err := read(append(frame(6, 8), append(frame(0, 17), frame(0, 0)...)...)); n != 1 || err != nil {
					t.Fatalf("second %d: %d frames with data, %v", second, n, err)
				}
			}
			<-time.After(2 * time.Second)
		}
		if f.counts[6] != 3*controlRate || f.counts[frameData] != 3*controlRate {
			t.Errorf("counted %v", f.counts)
		}
		var err error
		for range 2 * controlBurst {
			if _, err = read(frame(4, 0)); err != nil {
				break
			}
		}
		if violated := new(ViolationError); !errors.As(err, &violated) || f.violation() != err { //nolint:errorlint // the same
			t.Errorf("a flood gives %v", err)
		}
	})
}

// Verifies that frames with data are read at a bounded rate, until the connection is closed.
func TestDataFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		open, end := context.WithCancel(t.Context())
		c := &frameConn{Conn: ours, frames: newFrames(), open: open, end: end}
		go func() {
			for {
				if _, err := theirs.Write(frame(0, 1)); err != nil {
					return
				}
			}
		}()
		begin, buffer := time.Now(), make([]byte, 32<<10)
		for read := 0; read < len(frame(0, 1))*(dataBurst+5*dataRate); {
			n, err := c.Read(buffer)
			must(t, err)
			read += n
		}
		if took := time.Since(begin); took < 4*time.Second || took > 6*time.Second {
			t.Errorf("it took %s", took)
		}
		must(t, errors.Join(c.Close(), theirs.Close()))
	})
}
