package uevent_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/backends/uevent"
	"github.com/accelmux/accelmux/backends/uevent/ueventtest"
)

// A subscription logs only its first failure, listens as soon as it can, and again after the
// events ended.
func TestSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k ueventtest.Kernel
		var log bytes.Buffer
		e := uevent.NewSubscription(slog.New(slog.NewTextHandler(&log, nil)), k.Listen, func(e uevent.Event) bool { return e.Subsystem == "fpga" })
		defer e.Close()
		if e.Events() != nil {
			t.Error("it listens before Subscribe")
		}
		k.Refuse(errors.New("no such socket"))
		for range 3 {
			e.Subscribe(time.Minute)
		}
		if logged := strings.Count(log.String(), "no uevents"); logged != 1 || k.Calls() != 3 || e.Events() != nil {
			t.Errorf("logged %d times, %d calls, want 1 and 3: %s", logged, k.Calls(), log.String())
		}
		k.Refuse(nil)
		for range 2 {
			e.Subscribe(time.Minute)
		}
		if k.Calls() != 4 {
			t.Errorf("%d calls of Listen, want 4: it listens already", k.Calls())
		}
		k.Send(uevent.Add, "/devices/a", "net", nil)
		k.Send(uevent.Add, "/devices/b", "fpga", nil)
		event, ok := <-e.Events()
		if !e.Accept(event, ok) || event.DevPath != "/devices/b" {
			t.Errorf("it received %+v, %v", event, ok)
		}
		k.Break(io.ErrUnexpectedEOF)
		event, ok = <-e.Events()
		if e.Accept(event, ok) || e.Events() != nil || !strings.Contains(log.String(), "uevents ended") || !strings.Contains(log.String(), io.ErrUnexpectedEOF.Error()) {
			t.Errorf("after the end it received %+v, %v: %s", event, ok, log.String())
		}
		e.Subscribe(time.Minute)
		if k.Calls() != 5 || e.Events() == nil {
			t.Error("it does not listen again")
		}
	})
}
