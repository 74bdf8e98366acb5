package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
)

// mute is a kubelet that accepts connections on its sockets and never says a word.
type mute struct {
	listeners []net.Listener
	running   sync.WaitGroup
}

// newMute listens on the sockets.
func newMute(ctx context.Context, paths ...string) (_ *mute, err error) {
	m := &mute{}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	for _, path := range paths {
		// A kubelet that was killed has left its own.
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.RemoveAll(path)); err != nil {
			return nil, err
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
		if err != nil {
			return nil, err
		}
		m.listeners = append(m.listeners, listener)
		m.running.Go(func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer func() { _ = conn.Close() }()
			}
		})
	}
	return m, nil
}

// close ends it: its connections break, and its sockets are gone. A nil one is none.
func (m *mute) close() error {
	if m == nil {
		return nil
	}
	var errs []error
	for _, listener := range m.listeners {
		errs = append(errs, listener.Close())
	}
	m.running.Wait()
	return errors.Join(errs...)
}

// muteKubelet puts a kubelet that never answers in the place of one that is stopped.
func (w *world) muteKubelet(ctx context.Context, _ int) (err error) {
	if w.m.kubelet || w.mute != nil {
		return errSkip
	}
	w.mute, err = newMute(ctx, filepath.Join(w.kubelet.PluginDir(), "kubelet.sock"), filepath.Join(w.kubeletDir(), "pod-resources", "kubelet.sock"))
	return err
}

// unmute ends it, before kubelet starts.
func (w *world) unmute() error {
	m := w.mute
	w.mute = nil
	return m.close()
}
