package profile

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
)

// Verifies that a file whose settings a manifest refuses is refused as a whole, at the start and later, that what was in
// force stays, and that the file applies as soon as another manifest accepts it, also after a restart.
func TestRefusedSettings(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "node.yaml")
	write := func(settings string) {
		t.Helper()
		text := "apiVersion: " + config.APIVersion + "\nkind: " + config.Kind + "\nprofiles:\n  - name: p\n    backends: [{name: mock, settings: " + settings + "}]\n" +
			"    resources: [{name: example.com/gpu, selector: 'true'}]\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var newer atomic.Bool
	check := func(file config.Event) error {
		if !newer.Load() && strings.Contains(string(file.Data), "wrong") {
			return errors.New("node.yaml:4:1: wrong is no setting")
		}
		return nil
	}
	memory := OpenMemory(MemoryOptions{Path: filepath.Join(dir, "profile"), Configuration: path, Log: slog.New(slog.DiscardHandler)})
	write("{wrong: 1}")
	if _, err := Load(path, "", false, check, memory); err == nil || !strings.Contains(err.Error(), "wrong is no setting") {
		t.Errorf("at the first start: %v", err)
	}
	write("{}")
	loaded, err := Load(path, "", false, check, memory)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	manifests, woken := make(chan struct{}), make(chan struct{}, 8)
	options := SwitchOptions{
		Path: path, Check: check, Manifests: manifests, Memory: memory, Wake: func() { woken <- struct{}{} }, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Apply: func([]supervisor.Spec, map[string]inventory.Policy) {},
	}
	s, err := NewSwitch(options, loaded)
	if err != nil {
		t.Fatal(err)
	}
	write("{wrong: 1}")
	s.load(config.Read(path))
	if got := s.Status(); s.next != nil || got.Profile != "p" || !strings.Contains(got.Refused, "wrong is no setting") {
		t.Errorf("a later file: %+v", got)
	}
	memory.SetInForce("p", loaded.source)
	again, err := Load(path, "", false, check, memory)
	if err != nil || string(again.source) != string(loaded.source) || again.refused == nil {
		t.Errorf("after a restart: %v, refused %v", err, again.refused)
	}
	restarted, err := NewSwitch(options, again)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Count(log.String(), "\n")
	for name, s := range map[string]*Switch{"a running agent": s, "after a restart": restarted} {
		newer.Store(false)
		if s.retry(); s.next != nil || s.Status().Refused == "" || strings.Count(log.String(), "\n") > lines {
			t.Errorf("%s, without a change: %+v, log\n%s", name, s.Status(), log.String())
		}
		newer.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, nil) }()
		manifests <- struct{}{}
		<-woken
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if s.next == nil || !strings.Contains(string(s.next.Profile.Backends[0].Settings), "wrong") || s.Status().Refused != "" {
			t.Errorf("%s, with another manifest: %+v", name, s.Status())
		}
		lines = strings.Count(log.String(), "\n")
	}
}
