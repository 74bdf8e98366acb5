package device

import (
	"context"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/engine"
)

// watchNodes has the devices scanned when a node appears in /dev, or goes. The kernel sends no
// event of a node that a program makes, and none to a container in a user namespace.
func (b *Backend) watchNodes(ctx context.Context) {
	dirs := b.config().nodeDirs()
	if len(dirs) == 0 {
		return
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		b.log.Info("no events of /dev, device nodes that programs make are only found at the interval", "error", err)
		b.scanOften(ctx)
		return
	}
	defer func() { _ = watcher.Close() }() // nothing is lost
	add := func() {
		for _, dir := range dirs {
			if info, err := os.Stat(dir); err == nil && info.IsDir() { // one that is missing is added when it appears in the one above
				_ = watcher.Add(dir)
			}
		}
	}
	add()
	for {
		_ = b.Do(ctx, engine.Known.Scan) // an error means that the loop has ended
		if !b.awaitNode(ctx, watcher, dirs, add) {
			return
		}
	}
}

// scanOften has the devices scanned at the interval.
func (b *Backend) scanOften(ctx context.Context) {
	tick := time.NewTicker(b.config().interval)
	defer tick.Stop()
	for b.Do(ctx, engine.Known.Scan) == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// awaitNode waits for a change of a node that a kind wants, and reports whether there was one
// before ctx ended.
func (b *Backend) awaitNode(ctx context.Context, watcher *fsnotify.Watcher, dirs []string, add func()) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case e := <-watcher.Events:
			if !e.Has(fsnotify.Create) && !e.Has(fsnotify.Remove) && !e.Has(fsnotify.Rename) {
				continue
			}
			if slices.Contains(dirs, e.Name) {
				add()
				return true
			}
			if b.config().wantsNode(e.Name) {
				return true
			}
		case err := <-watcher.Errors:
			b.log.Debug("events of /dev were lost", "error", err)
			return true
		}
	}
}

// nodeDirs returns the directories in which the kinds look for nodes by their paths, and those
// above them; also the paths without wildcards, which may be directories.
func (c *config) nodeDirs() []string {
	dirs := map[string]bool{}
	for _, k := range c.kinds {
		for _, pattern := range k.Match.Paths {
			below, ok := strings.CutPrefix(pattern, "/dev/")
			if !ok {
				continue
			}
			dirs[c.host.Devfs] = true
			for dir := below; dir != "."; dir = path.Dir(dir) {
				if !strings.ContainsAny(dir, `*?[\`) {
					dirs[filepath.Join(c.host.Devfs, dir)] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(dirs))
}

// wantsNode reports whether a kind looks for a file in /dev by its path.
func (c *config) wantsNode(at string) bool {
	below, err := filepath.Rel(c.host.Devfs, at)
	return err == nil && slices.ContainsFunc(c.kinds, func(k *description.Compiled) bool {
		return slices.ContainsFunc(k.Match.Paths, func(pattern string) bool { return includes(pattern, path.Join("/dev", below)) })
	})
}

// includes reports whether a pattern for paths below /dev matches a node, or a directory above it.
func includes(pattern, node string) bool {
	for at := node; strings.HasPrefix(at, "/dev/"); at = path.Dir(at) {
		if ok, _ := path.Match(pattern, at); ok {
			return true
		}
	}
	return false
}
