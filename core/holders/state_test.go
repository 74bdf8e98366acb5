package holders

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

// Verifies that the book survives a restart, with its pending releases, and forgets all
// with a new boot.
func TestBookSurvivesARestart(t *testing.T) {
	k := newKubelet()
	opts := options(t, k)
	b := open(t, k, opts)
	allocate(t, b, "a", "b", "c::1")
	k.shows(pod("p", "a", "b"))
	poll(t, b)
	k.pass(time.Minute)
	k.shows(pod("p", "a"))
	poll(t, b)
	if diff := cmp.Diff([]inventory.Key{key("b")}, endedKeys(b)); diff != "" {
		t.Errorf("released (-want +got):\n%s", diff)
	}
	must(t, b.Close())
	again := open(t, k, opts)
	for _, id := range []string{"a", "c"} {
		if diff := cmp.Diff(users(b, id), users(again, id)); diff != "" || !again.Held(key(id)) {
			t.Errorf("holders of %s (-before +after):\n%s", id, diff)
		}
	}
	if complete(again) {
		t.Error("complete without asking kubelet")
	}
	ended := again.unsent()
	if len(ended) != 1 || ended[0].Device != key("b") || ended[0].Holder.ID == "" {
		t.Errorf("pending releases: %v", ended)
	}
	again.Released(ended...)
	must(t, again.Close())
	if got := endedKeys(open(t, k, opts)); got != nil {
		t.Errorf("reported again: %v", got)
	}
	opts.BootID = "boot-2"
	if fresh := open(t, k, opts); fresh.Held(key("a")) || fresh.Notes() != nil {
		t.Error("something is held over a reboot")
	}
}

// Verifies that the grace begins again with a restart: the clock may have been stepped.
func TestRestartRenewsTheGrace(t *testing.T) {
	k := newKubelet()
	opts := options(t, k)
	b := open(t, k, opts)
	allocate(t, b, "a")
	k.shows(pod("p", "a"))
	poll(t, b)
	must(t, b.Close())
	for _, step := range []time.Duration{-time.Hour, 2 * time.Hour} {
		k.pass(step)
		b = open(t, k, opts)
		k.shows()
		poll(t, b)
		if !b.Held(key("a")) {
			t.Errorf("released right after a restart with the clock stepped by %v", step)
		}
	}
	k.pass(30 * time.Second)
	poll(t, b)
	if b.Held(key("a")) {
		t.Error("still held")
	}
}

// A damaged file is moved aside and said so; nothing else fails.
func TestDamagedFile(t *testing.T) {
	valid := func(payload string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			t.Helper()
			must(t, checkpoint.Writer{}.Write(path, magic, []byte(payload)))
		}
	}
	for name, damage := range map[string]func(*testing.T, string){
		"no JSON": valid("{"),
		"other version": func(t *testing.T, path string) {
			t.Helper()
			_ = (checkpoint.Writer{}).Write(path, "accelmux-usage/9", []byte("{}"))
		},
		"empty unit": valid(`{"bootID":"boot-1","holds":[{"backend":"mock","device":"a","holder":"h","resource":"r","unit":""}]}`),
		"no holder":  valid(`{"bootID":"boot-1","holds":[{"backend":"mock","device":"a","resource":"r","unit":"u"}]}`),
		"unit twice": valid(`{"bootID":"boot-1","holds":[{"backend":"m","device":"a","holder":"h","resource":"r","unit":"u"},{"backend":"m","device":"b","holder":"h","resource":"r","unit":"u"}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			k := newKubelet()
			opts := options(t, k)
			damage(t, opts.Path)
			b := open(t, k, opts)
			if notes := b.Notes(); len(notes) != 1 || !strings.Contains(notes[0], opts.Path+".corrupt") {
				t.Errorf("notes %q", notes)
			}
			allocate(t, b, "a")
			must(t, b.Close())
			if again := open(t, k, opts); !again.Held(key("a")) || again.Notes() != nil {
				t.Error("the book does not go on")
			}
		})
	}
}

// Verifies that the file of an earlier version is read, and written again as it was but for
// the times.
func TestEarlierFile(t *testing.T) {
	const payload = `{"bootID":"boot-1","holds":[` +
		`{"backend":"mock","device":"a","holder":"H1","resource":"example.com/gpu","unit":"a::0","since":"2026-01-02T03:04:05Z","seen":true,` +
		`"holders":[{"namespace":"ns","pod":"p","container":"main"}],"resetGroup":"g","parents":["card"]},` +
		`{"backend":"mock","device":"b","holder":"H1","resource":"example.com/gpu","unit":"b","since":"2026-01-02T03:04:05Z"},` +
		`{"backend":"mock","device":"c","holder":"H2","resource":"example.com/gpu","unit":"c","since":"2026-01-02T03:04:05Z","unannounced":true}],` +
		`"ended":[{"backend":"mock","device":"d","holder":"H3"}]}`
	k := newKubelet()
	k.now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	opts := options(t, k)
	must(t, checkpoint.Writer{}.Write(opts.Path, "accelmux-usage/2", []byte(payload)))
	b := open(t, k, opts)
	want := []Holder{{Ref: Ref{KindContainer, "H1"}, Resource: gpu, Units: []string{"a::0", "b"}}}
	if diff := cmp.Diff(want, b.HoldersOf(key("b"))); diff != "" || !slices.Equal(users(b, "a"), []string{"a::0 ns/p/main"}) {
		t.Errorf("%v; holders (-want +got):\n%s", users(b, "a"), diff)
	}
	must(t, b.Close())
	got, err := checkpoint.Read(opts.Path, "accelmux-usage/2")
	must(t, err)
	var flat bytes.Buffer
	if err := json.Compact(&flat, got); err != nil || flat.String() != payload {
		t.Errorf("%v, the file is\n%s\nwant\n%s", err, &flat, payload)
	}
}
