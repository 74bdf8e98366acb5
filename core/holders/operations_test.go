package holders

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
)

func keys(ids ...string) []inventory.Key {
	all := make([]inventory.Key, len(ids))
	for i, id := range ids {
		all[i] = key(id)
	}
	return all
}

func units(ids ...string) []Unit {
	all := make([]Unit, len(ids))
	for i, id := range ids {
		all[i] = unitOf(id)
	}
	return all
}

// inTime runs a test of a book without kubelet in a bubble of synctest.
func inTime(t *testing.T, test func(t *testing.T, b *Book)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		opts := options(t, newKubelet())
		opts.Path, opts.Now = filepath.Join(dir, "usage"), time.Now
		test(t, open(t, newKubelet(), opts))
	})
}

func release(t *testing.T, b *Book, id string) (end func(), shared bool) {
	t.Helper()
	end, shared, err := b.BeginRelease(t.Context(), key(id))
	must(t, err)
	return end, shared
}

// Verifies that an allocation waits for a release of one of its devices and goes on as soon
// as that has ended, but waits no longer than the limit and than its caller, and that other
// devices are not kept waiting.
func TestTakeWaitsForRelease(t *testing.T) {
	for name, c := range map[string]struct {
		release, caller, want time.Duration
		refused               bool
	}{
		"the release ends":   {10 * time.Second, time.Hour, 10 * time.Second, false},
		"the book's limit":   {time.Hour, time.Hour, takeLimit, true},
		"the caller's limit": {time.Hour, time.Second, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, b *Book) {
				end, _ := release(t, b, "a")
				time.AfterFunc(c.release, end)
				began := time.Now()
				if err := b.Take(t.Context(), gpu, units("b")); err != nil || time.Since(began) != 0 {
					t.Errorf("another device after %v: %v", time.Since(began), err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.caller)
				defer cancel()
				err := b.Take(ctx, gpu, units("b", "a"))
				if (err != nil) != c.refused || time.Since(began) != c.want || b.Held(key("a")) == c.refused {
					t.Errorf("after %v: %v; want it after %v, refused: %v", time.Since(began), err, c.want, c.refused)
				}
			})
		})
	}
}

// Verifies that an allocation of a device that is being reset is refused at once, and that
// nothing is recorded for it.
func TestTakeRefusesDuringReset(t *testing.T) {
	b := open(t, newKubelet(), options(t, newKubelet()))
	end, _ := b.BeginReset(keys("a"))
	defer end()
	if since := b.Resetting(); len(since) != 1 || since[key("a")].IsZero() {
		t.Errorf("resetting are %v", since)
	}
	err := b.Take(t.Context(), gpu, units("b", "a"))
	if err == nil || !strings.Contains(err.Error(), "mock/a has been in reset") || b.Held(key("b")) {
		t.Errorf("%v, held %v; want a refusal and nothing held", err, b.Held(key("b")))
	}
}

// Verifies that a device is not given out in two ways that exclude each other, and what the
// refusal names.
func TestTakeRefusesWhatIsHeld(t *testing.T) {
	const other = "example.com/other"
	for name, c := range map[string]struct {
		held, resource, wanted string
		refused                bool
	}{
		"the same unit again":           {"a", gpu, "a", false},
		"under another name":            {"a", other, "a", true},
		"another replica":               {"a::0", gpu, "a::1", false},
		"a replica under another name":  {"a::0", other, "a::0", false},
		"shared no more":                {"a::0", gpu, "a", true},
		"shared by now":                 {"a", gpu, "a::0", true},
		"whole, and shared, other name": {"a::0", other, "a", true},
		"another device":                {"a", other, "b", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, newKubelet(), options(t, newKubelet()))
			take(t, b, gpu, units(c.held))
			err := b.Take(t.Context(), c.resource, units("z", c.wanted))
			if (err != nil) != c.refused || b.Held(key("z")) == c.refused {
				t.Errorf("%v, want a refusal: %v", err, c.refused)
			}
			if err != nil && !strings.Contains(err.Error(), "as unit "+c.held+" of "+gpu) {
				t.Errorf("the refusal %q does not name the hold", err)
			}
		})
	}
}

// Verifies that a reset does not begin on devices of which one is held or worked on, and
// that what did not begin leaves no mark.
func TestResetIsRefused(t *testing.T) {
	b := open(t, newKubelet(), options(t, newKubelet()))
	take(t, b, gpu, units("b"))
	if end, blocker := b.BeginReset(keys("a", "b")); end != nil || blocker != key("b") {
		t.Errorf("began although %s is held", blocker)
	}
	end, shared := release(t, b, "a")
	if shared || b.Resetting() != nil {
		t.Errorf("shared %v, resetting %v; want a release of a free device", shared, b.Resetting())
	}
	if second, blocker := b.BeginReset(keys("c", "a")); second != nil || blocker != key("a") {
		t.Error("two operations on one device")
	}
	end()
	if again, _ := b.BeginReset(keys("a", "c")); again == nil {
		t.Error("the mark outlived its operation")
	}
}

// Verifies that operations on one device wait for each other, whoever holds it, and that a
// shared device is given out meanwhile.
func TestOneOperationForADevice(t *testing.T) {
	inTime(t, func(t *testing.T, b *Book) {
		take(t, b, gpu, units("a::0", "b"))
		end, err := b.BeginPrepare(t.Context(), keys("a", "b"))
		must(t, err)
		if err := b.Take(t.Context(), gpu, units("a::1")); err != nil {
			t.Errorf("another replica: %v", err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.BeginPrepare(short, keys("c", "a")); err == nil || !strings.Contains(err.Error(), "mock/a has been in preparation") {
			t.Errorf("a second Prepare: %v", err)
		}
		if _, _, err := b.BeginRelease(short, key("b")); err == nil {
			t.Error("a release beside Prepare")
		}
		var at []string
		began := time.Now()
		go func() {
			end, shared := release(t, b, "a")
			if !shared {
				t.Error("a device with two holders is released as if it had none")
			}
			at = append(at, "released after "+time.Since(began).String())
			<-time.After(time.Second)
			end()
		}()
		<-time.After(time.Second)
		end()
		synctest.Wait()
		next, err := b.BeginPrepare(t.Context(), keys("a"))
		if err != nil || time.Since(began) != 2*time.Second || len(at) != 1 || at[0] != "released after 1s" {
			t.Errorf("%v after %s; %v", err, time.Since(began), at)
		}
		next()
	})
}

// Verifies that Drain waits for what is in progress, and that no release or reset begins
// after it, while containers that start are still prepared.
func TestDrain(t *testing.T) {
	inTime(t, func(t *testing.T, b *Book) {
		end, _ := b.BeginReset(keys("a"))
		time.AfterFunc(3*time.Second, end)
		began := time.Now()
		b.Drain(t.Context())
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("drained after %v, want 3s", took)
		}
		if end, _ := b.BeginReset(keys("a")); end != nil {
			t.Error("a reset begins after Drain")
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := b.BeginRelease(short, key("a")); err == nil {
			t.Error("a release begins after Drain")
		}
		if _, err := b.BeginPrepare(t.Context(), keys("b")); err != nil {
			t.Error(err)
		}
	})
}
