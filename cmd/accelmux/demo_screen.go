package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
)

// screen prints the demo: titles, sentences, and kubelet's events as they come.
// Colours only on a terminal, and not if NO_COLOR is set. Safe for concurrent use.
type screen struct {
	mu     sync.Mutex
	out    io.Writer
	colour bool
	start  time.Time
	muted  bool
	unread context.CancelCauseFunc
}

// newScreen makes one that prints to out, and calls unread if it cannot.
func newScreen(out io.Writer, unread context.CancelCauseFunc) *screen {
	return &screen{out: out, unread: unread, colour: isTerminal(out) && os.Getenv("NO_COLOR") == "", start: time.Now()}
}

func (s *screen) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.muted {
		return
	}
	if _, err := fmt.Fprintln(s.out, text); err != nil {
		s.unread(fmt.Errorf("nobody sees the demo any more: %w", err))
	}
}

// mute hides what kubelet sees while everything is taken down.
func (s *screen) mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muted = true
}

func (s *screen) title(text string) { s.print("\n" + s.paint("1", text)) }

func (s *screen) say(format string, args ...any) {
	s.print("  " + fmt.Sprintf(format, args...))
}

// event shows what kubelet saw, with the time since the demo began.
func (s *screen) event(e kubelettest.Event) {
	var text string
	switch e.Type {
	case kubelettest.EventStarted, kubelettest.EventStopped:
		text = "kubelet " + string(e.Type)
	case kubelettest.EventDevices:
		text = fmt.Sprintf("%s: %d of %d devices healthy", e.Resource, e.Healthy, e.Listed)
	case kubelettest.EventAllocated:
		text = fmt.Sprintf("%s: pod %s gets %s", e.Resource, e.Pod, strings.Join(e.Devices, ", "))
	case kubelettest.EventContainerStarted:
		text = fmt.Sprintf("pod %s: container %s started", e.Pod, e.Container)
	case kubelettest.EventFreed:
		text = fmt.Sprintf("pod %s ended", e.Pod)
	default:
		text = e.Resource + ": " + string(e.Type)
		if e.Err != nil {
			text += ": " + e.Err.Error()
		}
	}
	s.print(s.paint("36", fmt.Sprintf("  %7.3fs  kubelet sees  %s", time.Since(s.start).Seconds(), text)))
}
