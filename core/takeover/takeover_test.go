package takeover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serving returns the claim of an agent that serves, and that kubelet is connected to.
func serving(t *testing.T, dir string) *Claim {
	t.Helper()
	c := New(dir)
	if err := c.Lock(); err != nil {
		t.Fatal(err)
	}
	c.Connected()
	return c
}

// background calls f, and returns a function that reports whether it has returned, once
// nothing but time can change that.
func background(t *testing.T, f func() error) (returned func() bool) {
	done := make(chan error, 1)
	over := false
	go func() { done <- f() }()
	return func() bool {
		t.Helper()
		<-time.After(2 * poll)
		synctest.Wait()
		select {
		case err := <-done:
			over = true
			if err != nil {
				t.Error(err)
			}
		default:
		}
		return over
	}
}

// The whole sequence: the newer agent waits for the older one to hand over, and that one
// waits until kubelet is connected to the newer one. A third agent is the next.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		older := serving(t, dir)
		if older.Standby() != nil || older.Active() != nil {
			t.Fatal("there is another agent before it has come")
		}
		newer := New(dir)
		if err := newer.Lock(); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), fmt.Sprintf("(pid %d on ", os.Getpid())) {
			t.Fatalf("the newer agent's Lock gives %v, want an ErrHeld that names the older one", err)
		}
		if h := older.Standby(); h == nil || h.PID != os.Getpid() || h.Since.IsZero() {
			t.Errorf("the older agent sees %+v on standby", h)
		}
		if h := newer.Active(); h == nil || h.PID != os.Getpid() {
			t.Errorf("the newer agent sees %+v active", h)
		}
		locked := background(t, func() error { return newer.Wait(t.Context()) })
		if locked() {
			t.Fatal("two agents have the directory")
		}
		if !newer.Next() {
			t.Error("the newer agent does not follow the older one")
		}
		third := New(dir)
		next := background(t, func() error { return third.Wait(t.Context()) })
		var serves *LockOwner
		ended := background(t, func() (err error) { serves, err = older.Release(t.Context()); return err })
		if !locked() || newer.Lock() != nil {
			t.Fatal("the newer agent does not get the directory")
		}
		if newer.Next() || !third.Next() {
			t.Error("the third agent does not follow the newer one")
		}
		if ended() {
			t.Fatal("the older agent ends before kubelet is connected to the newer one")
		}
		if newer.Connected(); !ended() || next() || serves == nil || serves.PID != os.Getpid() {
			t.Errorf("the older agent does not end, or the third one has the directory, or kubelet is connected to another: %+v", serves)
		}
		if err := errors.Join(older.Close(), newer.Close()); err != nil {
			t.Fatal(err)
		}
		if !next() {
			t.Error("the third agent does not get the directory when the newer one has ended")
		}
		if err := third.Close(); err != nil {
			t.Error(err)
		}
	})
}

// An agent that ends without a word leaves the directory to the one on standby; one on
// standby that ends is not waited for.
func TestAgentIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		older, newer := serving(t, dir), New(dir)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := newer.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("Wait gives %v, want the context's error", err)
		}
		if err := newer.Close(); err != nil || older.Standby() != nil {
			t.Fatalf("an agent that has ended is on standby, %v", err)
		}
		locked := background(t, func() error { return newer.Wait(t.Context()) })
		if locked() {
			t.Fatal("two agents have the directory")
		}
		if err := older.Close(); err != nil || !locked() {
			t.Errorf("the newer agent does not get the directory, %v", err)
		}
		if err := newer.Close(); err != nil {
			t.Error(err)
		}
	})
}

// If the newer agent dies before kubelet is connected to it, the older one goes on until
// another one is, or its limit is over.
func TestNewerDies(t *testing.T) {
	for name, comes := range map[string]bool{"another one comes": true, "none comes": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				older, newer, another := serving(t, dir), New(dir), New(dir)
				locked := background(t, func() error { return newer.Wait(t.Context()) })
				limit, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				ended := background(t, func() error {
					if _, err := older.Release(limit); (err != nil) == comes {
						return fmt.Errorf("Release gives %w", err)
					}
					return nil
				})
				if !locked() {
					t.Fatal("the newer agent does not get the directory")
				}
				if err := newer.Close(); err != nil || ended() {
					t.Fatalf("the older agent ends though no other serves, %v", err)
				}
				if comes {
					if err := another.Lock(); err != nil || ended() {
						t.Fatalf("the older agent ends before kubelet is connected, %v", err)
					}
					if another.Connected(); !ended() {
						t.Error("the older agent does not end")
					}
				} else {
					<-limit.Done()
					if !ended() || time.Since(began) < time.Minute {
						t.Errorf("the older agent's end is at %v, want it after the limit", time.Since(began))
					}
				}
				if err := errors.Join(older.Close(), another.Close()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A lock is no file but its own: what is linked there is neither locked nor changed, and
// what cannot be a lock is not waited for.
func TestLockIsItsOwnFile(t *testing.T) {
	for name, plant := range map[string]func(victim, lock string) error{
		"symbolic link": os.Symlink,
		"hard link":     os.Link,
		"link to none":  func(_, lock string) error { return os.Symlink(lock+"-victim", lock) },
		"pipe":          func(_, lock string) error { return unix.Mkfifo(lock, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, lockName)
			if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := plant(victim, path); err != nil {
				t.Fatal(err)
			}
			lock, err := LockFile(path)
			if err == nil {
				t.Error("it is locked", lock.Release())
			} else if errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove it") {
				t.Errorf("the error is %v", err)
			}
			if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
				t.Errorf("the victim is %q, %v", text, err)
			}
			if _, err := os.Stat(path + "-victim"); err == nil {
				t.Error("a file is made where the link leads")
			}
			if OwnerOf(path) != nil {
				t.Error("it has a owner")
			}
		})
	}
}
