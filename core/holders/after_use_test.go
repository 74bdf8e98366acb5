package holders

import (
	"cmp"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
)

// resetAfterUse runs a test of a book of devices that are reset after use in a bubble of synctest.
func resetAfterUse(t *testing.T, test func(t *testing.T, opts Options, b *Book)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		opts := options(t, newKubelet())
		opts.Path, opts.Now = filepath.Join(dir, "usage"), time.Now
		opts.ResetAfterUse = func(device inventory.Key) bool { return device != key("other") }
		test(t, opts, open(t, newKubelet(), opts))
	})
}

// Verifies that a device is given to no new holder from the end of its last one until its reset has
// ended, in whatever way it was held, and that the next one waits for it no longer than the limit.
func TestResetAfterUse(t *testing.T) {
	claim := Claim{Driver: "driver", UID: "uid", Namespace: "ns", Name: "c"}
	takeClaim := func(t *testing.T, b *Book) error {
		return b.TakeClaim(t.Context(), claim, []ClaimedDevice{{Device: key("a")}})
	}
	none := func(inventory.Key) bool { return false }
	for name, c := range map[string]struct {
		use  func(t *testing.T, b *Book)
		next func(t *testing.T, b *Book) error
		due  bool
		// limit is how long next waits; default takeLimit.
		limit time.Duration
	}{
		"never used": {
			func(*testing.T, *Book) {},
			func(t *testing.T, b *Book) error { return b.Take(t.Context(), gpu, units("a")) }, false, 0,
		},
		"another device": {
			func(t *testing.T, b *Book) { take(t, b, gpu, units("other")); b.Return(gpu, units("other")) },
			func(t *testing.T, b *Book) error { return b.Take(t.Context(), gpu, units("other")) }, false, 0,
		},
		"a claim after a container": {
			func(t *testing.T, b *Book) { take(t, b, gpu, units("a")); b.Return(gpu, units("a")) },
			func(t *testing.T, b *Book) error { return takeClaim(t, b) }, true, reuseLimit,
		},
		"a container after a claim": {
			func(t *testing.T, b *Book) { must(t, takeClaim(t, b)); b.endClaim(ClaimID{"driver", "uid"}, none) },
			func(t *testing.T, b *Book) error { return b.Take(t.Context(), gpu, units("a")) }, true, 0,
		},
		"the unit again, before its first holder is known to have ended": {
			func(t *testing.T, b *Book) { take(t, b, gpu, units("a")) },
			func(t *testing.T, b *Book) error { return b.Take(t.Context(), gpu, units("a")) }, true, 0,
		},
		"a replica beside another": {
			func(t *testing.T, b *Book) {
				take(t, b, gpu, units("a::0"))
				take(t, b, gpu, units("a::1"))
				b.Return(gpu, units("a::0"))
			},
			func(t *testing.T, b *Book) error { return b.Take(t.Context(), gpu, units("a::1", "a::0")) }, true, 0,
		},
		"the same replica beside another": {
			func(t *testing.T, b *Book) { take(t, b, gpu, units("a::0")); take(t, b, gpu, units("a::1")) },
			func(t *testing.T, b *Book) error { return b.Take(t.Context(), gpu, units("a::0")) }, false, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, works := range []bool{true, false} {
				resetAfterUse(t, func(t *testing.T, _ Options, b *Book) {
					c.use(t, b)
					if works {
						time.AfterFunc(5*time.Second, func() { b.EndDueResets(key("a")) })
					}
					began, want := time.Now(), time.Duration(0)
					if c.due {
						want = cmp.Or(c.limit, takeLimit)
					}
					if c.due && works {
						want = 5 * time.Second
					}
					err := c.next(t, b)
					if refused := c.due && !works; time.Since(began) != want || (err != nil) != refused {
						t.Errorf("after %v, with a reset that works: %v: %v; want it after %v", time.Since(began), works, err, want)
					}
					if err != nil && !strings.Contains(err.Error(), awaitingReset) {
						t.Errorf("the refusal does not say why: %v", err)
					}
					if (err != nil) != (len(b.DueResets()) == 1) {
						t.Errorf("due are %v after %v", b.DueResets(), err)
					}
				})
			}
		})
	}
}

// Verifies that a reset which is due survives a restart, and that it waits for the release of the
// holder that ended; a device that was found in use meanwhile is reset when that ends.
func TestDueResetIsStored(t *testing.T) {
	resetAfterUse(t, func(t *testing.T, opts Options, b *Book) {
		take(t, b, gpu, units("a"))
		b.Return(gpu, units("a"))
		began := b.DueResets()[key("a")].Since
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's time
		must(t, b.Close())
		b = open(t, newKubelet(), opts)
		due := b.DueResets()[key("a")]
		if !due.Since.Equal(began) || !due.Releasing {
			t.Fatalf("due after a restart: %+v, want it since %v, and to be released", b.DueResets(), began)
		}
		for e := range b.ended.sent {
			b.Released(e)
		}
		if due := b.DueResets()[key("a")]; due.Since.IsZero() || due.Releasing {
			t.Errorf("due after the release: %+v", b.DueResets())
		}
		b.Claims().Expect(recordOf(Claim{Driver: "driver", UID: "uid"}, "a"))
		if due := b.DueResets(); due != nil {
			t.Errorf("due while a claim of the record has it: %v", due)
		}
		b.endClaim(ClaimID{"driver", "uid"}, func(inventory.Key) bool { return false })
		must(t, b.Store())
		must(t, b.Close())
		if b = open(t, newKubelet(), opts); len(b.DueResets()) != 1 {
			t.Errorf("due after the end of a claim and a restart: %v", b.DueResets())
		}
	})
}

// Verifies that devices of an earlier run are reset first if its record was lost, unless kubelet lists
// them.
func TestLostRecordRequiresResets(t *testing.T) {
	k := newKubelet()
	opts := options(t, k)
	opts.ResetAfterUse = func(inventory.Key) bool { return true }
	opts.Resolve = func(_, unit string) (inventory.Key, bool) { return key(unit), true }
	b := open(t, k, opts)
	b.Suspect(key("a"), key("b"))
	k.pods = append(k.pods, pod("pod", "b"))
	must(t, b.opts.Kubelet.Poll(t.Context()))
	if due := b.DueResets(); len(due) != 1 || due[key("a")].Since.IsZero() {
		t.Errorf("due are %v, want a alone", due)
	}
}
