package config

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/checkpoint"
)

func keeper(path, source string) *Keeper {
	return NewKeeper(path, source, slog.New(slog.DiscardHandler))
}

// runKeeper runs a Keeper until the end that it returns.
func runKeeper(t *testing.T, k *Keeper) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Verifies that the bytes come back as they were, the newest, and only for the
// file that they are of.
func TestKeeper(t *testing.T) {
	dir := t.TempDir()
	path, source := filepath.Join(dir, "configuration"), filepath.Join(dir, "node.yaml")
	if _, err := keeper(path, source).Kept(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("at first: %v", err)
	}
	const text = "# to the letter \n\n\x00profiles: []"
	k := keeper(path, source)
	end := runKeeper(t, k)
	k.Keep([]byte("old"))
	k.Keep([]byte(text))
	end()
	if data, err := keeper(path, source).Kept(); err != nil || string(data) != text {
		t.Errorf("kept %q, %v", data, err)
	}
	t.Chdir(dir)
	if data, err := keeper(path, "node.yaml").Kept(); err != nil || string(data) != text {
		t.Errorf("by a relative path: kept %q, %v", data, err)
	}
	if _, err := keeper(path, filepath.Join(dir, "other.yaml")).Kept(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of another file: %v", err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	end = runKeeper(t, k)
	k.Keep([]byte(text))
	end()
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the stored configuration was written again, %v", err)
	}
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keeper(path, source).Kept(); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("damaged: %v", err)
	}
}

// Verifies that a full disk is reported, and the write tried again until it succeeds.
func TestKeeperOnFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "configuration")
		k := keeper(path, "node.yaml")
		var full atomic.Bool
		full.Store(true)
		k.disk.Before = func(op checkpoint.Op, _ string) error {
			if full.Load() && op == checkpoint.OpWrite {
				return errors.New("no space left")
			}
			return nil
		}
		defer runKeeper(t, k)()
		k.Keep([]byte("text"))
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if notes := strings.Join(k.Notes(), ""); !strings.Contains(notes, "no space left") {
			t.Errorf("notes: %s", notes)
		}
		full.Store(false)
		<-time.After(2 * maxKeepPause)
		synctest.Wait()
		if data, err := k.Kept(); err != nil || string(data) != "text" || len(k.Notes()) > 0 {
			t.Errorf("kept %q, %v, notes %v", data, err, k.Notes())
		}
	})
}
