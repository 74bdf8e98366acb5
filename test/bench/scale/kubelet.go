package scale

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/bench/rig"
)

// serveKubelet is a stand-in kubelet that writes a line for each list that it got: when,
// how many devices, how many of them healthy, and the resource. It ends with its input.
func serveKubelet(dir string, in io.Reader, out io.Writer) error {
	kubelet := kubelettest.New(dir, kubelettest.Options{OnEvent: func(e kubelettest.Event) {
		if e.Type == kubelettest.EventDevices {
			_, _ = fmt.Fprintln(out, e.At.UnixNano(), e.Listed, e.Healthy, e.Resource, e.Socket) // the reader may be gone
		}
	}})
	if err := kubelet.Start(); err != nil {
		return err
	}
	defer kubelet.Stop()
	_, _ = fmt.Fprintln(out, "ready")
	_, err := io.Copy(io.Discard, in)
	return err
}

// list is one that the stand-in kubelet got.
type list struct {
	at              time.Time
	devices         int
	healthy         int
	resource, where string
}

// child is a process of this program's that plays a part.
type child struct {
	process *exec.Cmd
	in      io.WriteCloser
	lines   *bufio.Scanner
}

func startChild(role string, args ...string) (*child, error) {
	process, err := rig.Self(role, args...)
	if err != nil {
		return nil, err
	}
	c := &child{process: process}
	if c.in, err = process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.lines = bufio.NewScanner(out)
	return c, process.Start()
}

// line waits for the next one.
func (c *child) line() (string, error) {
	if !c.lines.Scan() {
		if err := c.lines.Err(); err != nil {
			return "", err
		}
		return "", io.ErrUnexpectedEOF
	}
	return c.lines.Text(), nil
}

func (c *child) stop() error {
	_ = c.in.Close() // it may have ended
	return c.process.Wait()
}

// parseList reads a line of serveKubelet's.
func parseList(line string) (l list, err error) {
	var at int64
	if _, err := fmt.Fscan(strings.NewReader(line), &at, &l.devices, &l.healthy, &l.resource, &l.where); err != nil {
		return l, fmt.Errorf("the stand-in kubelet said %q: %w", line, err)
	}
	l.at = time.Unix(0, at)
	return l, nil
}
