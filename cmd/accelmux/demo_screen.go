package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
)

// screen prints the demo's titles and messages, and kubelet's events as they come. It uses
// colours only on a terminal, and not if NO_COLOR is set. Safe for concurrent use.
type screen struct {
	mu     sync.Mutex
	out    io.Writer
	colour bool
	start  time.Time
	muted  bool
	// cancel ends the demo when the output cannot be written.
	cancel context.CancelCauseFunc
	// prompting is true while the prompt is on the terminal's last line.
	prompting bool

	// health has the health of each device in kubelet's newest list, by resource and ID;
	// changes describes how that list differs from the one before. Only the callbacks of
	// the stand-in kubelet use them, which come one at a time.
	health  map[string]map[string]string
	changes []string
}

// prompt asks for a command.
const prompt = "> "

// newScreen returns a screen that prints to out, and calls cancel when a write fails.
func newScreen(out io.Writer, cancel context.CancelCauseFunc) *screen {
	return &screen{
		out: out, cancel: cancel, colour: hasColour(out), start: time.Now(),
		health: map[string]map[string]string{},
	}
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
	text += "\n"
	if s.prompting { // print above the prompt; the terminal keeps what was typed
		text = "\r\x1b[K" + text + prompt
	}
	s.write(text)
}

// write writes to the output. The caller holds mu.
func (s *screen) write(text string) {
	if _, err := io.WriteString(s.out, text); err != nil {
		s.cancel(fmt.Errorf("write the demo's output: %w", err))
	}
}

// ask shows the prompt; ask(false) records that it was answered.
func (s *screen) ask(show bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prompting = show; show {
		s.write(prompt)
	}
}

// close discards all further output, so that the shutdown prints nothing.
func (s *screen) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muted = true
}

func (s *screen) title(text string) { s.print("\n" + s.paint("1", text)) }

func (s *screen) say(format string, args ...any) {
	s.print("  " + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n  "))
}

// table prints a table.
func (s *screen) table(fill func(*tabwriter.Writer)) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 4, 2, ' ', 0)
	fill(w)
	_ = w.Flush() // writing to a strings.Builder cannot fail
	s.say("%s", strings.TrimSuffix(text.String(), "\n"))
}

// devices is kubelettest's OnDevices: it records how a list differs from the one before. The
// first list of a resource has no changes.
func (s *screen) devices(resource string, devices []*pluginapi.Device) {
	before, now := s.health[resource], make(map[string]string, len(devices))
	s.changes = nil
	for _, d := range devices {
		now[d.GetID()] = d.GetHealth()
		if old := before[d.GetID()]; before != nil && old != d.GetHealth() {
			s.changes = append(s.changes, d.GetID()+" "+strings.ToLower(d.GetHealth()))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if _, listed := now[id]; !listed {
			s.changes = append(s.changes, id+" removed")
		}
	}
	s.health[resource] = now
}

// maxChanges bounds the changed devices that are printed for one list.
const maxChanges = 16

// event is kubelettest's OnEvent: it prints the event, with the time since the demo began.
func (s *screen) event(e kubelettest.Event) {
	var text string
	switch e.Type {
	case kubelettest.EventStarted, kubelettest.EventStopped:
		text = "kubelet " + string(e.Type)
	case kubelettest.EventDevices:
		text = fmt.Sprintf("%s: %d of %d devices healthy", e.Resource, e.Healthy, e.Listed)
		if n := len(s.changes); n > maxChanges {
			text += fmt.Sprintf(": %s and %d more", strings.Join(s.changes[:maxChanges], ", "), n-maxChanges)
		} else if n > 0 {
			text += ": " + strings.Join(s.changes, ", ")
		}
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
