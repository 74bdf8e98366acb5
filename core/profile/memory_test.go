package profile

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/checkpoint"
)

func memoryOf(dir, node, configuration string) *Memory {
	return OpenMemory(MemoryOptions{Path: filepath.Join(dir, "profile"), Node: node, Configuration: configuration, Log: slog.New(slog.DiscardHandler)})
}

// storing runs a Memory until the end that it returns.
func storing(t *testing.T, m *Memory) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Verifies that a restart finds what was stored last, the configuration to the letter; that
// another node's labels and another file's configuration do not count; and that a file which
// cannot be read is a problem until it is replaced, and is not changed before.
func TestMemory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	path, file := filepath.Join(dir, "profile"), filepath.Join(dir, "node.yaml")
	m := memoryOf(dir, "node-1", file)
	if _, err := m.Configuration(); !errors.Is(err, fs.ErrNotExist) || m.Labels() != nil || m.Profile() != "" || len(m.problems()) > 0 {
		t.Errorf("at first: %v, %+v", err, m.record)
	}
	const text = "# to the letter \n\n\x00profiles: []"
	labels := map[string]string{"a": "b"}
	end := storing(t, m)
	m.setLabels(labels)
	m.SetInForce("old", []byte("old"))
	m.SetInForce("big", []byte(text))
	end()
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, again := range map[string]*Memory{"restarted": memoryOf(dir, "node-1", file), "by a relative path": memoryOf(dir, "node-1", "node.yaml")} {
		if data, err := again.Configuration(); err != nil || string(data) != text || again.Profile() != "big" || !maps.Equal(again.Labels(), labels) {
			t.Errorf("%s: %q, %v, %+v", name, data, err, again.record)
		}
	}
	if other := memoryOf(dir, "node-2", file); other.Labels() != nil || other.Profile() != "" {
		t.Errorf("another node has %+v", other.record)
	}
	if _, err := memoryOf(dir, "node-1", "other.yaml").Configuration(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of another file: %v", err)
	}
	end = storing(t, m)
	m.setLabels(maps.Clone(labels))
	end()
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("what is stored was written again, %v", err)
	}
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	m = memoryOf(dir, "node-1", file)
	if _, err := m.Configuration(); !errors.Is(err, checkpoint.ErrCorrupt) || len(m.problems()) != 1 {
		t.Errorf("damaged: %v, %q", err, m.problems())
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "damaged" {
		t.Errorf("opening it changed it: %q, %v", text, err)
	}
	end = storing(t, m)
	m.setLabels(labels)
	end()
	if len(m.problems()) > 0 || !maps.Equal(memoryOf(dir, "node-1", file).Labels(), labels) {
		t.Errorf("after a write: %q", m.problems())
	}
}

// Verifies that a full disk is reported, and the write tried again until it succeeds.
func TestMemoryOnFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		m := memoryOf(dir, "node-1", "node.yaml")
		var full atomic.Bool
		full.Store(true)
		m.opts.Disk.Before = func(op checkpoint.Op, _ string) error {
			if full.Load() && op == checkpoint.OpWrite {
				return errors.New("no space left")
			}
			return nil
		}
		defer storing(t, m)()
		m.setLabels(map[string]string{"a": "b"})
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if problems := strings.Join(m.problems(), ""); !strings.Contains(problems, "no space left") {
			t.Errorf("problems: %s", problems)
		}
		full.Store(false)
		<-time.After(2 * maxSavePause)
		synctest.Wait()
		if len(memoryOf(dir, "node-1", "").Labels()) != 1 || len(m.problems()) > 0 {
			t.Errorf("problems: %q", m.problems())
		}
	})
}
