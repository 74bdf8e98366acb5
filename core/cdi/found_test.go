package cdi

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/inventory"
)

// ownSpec is a spec file as accelmux writes it.
func ownSpec(t *rapid.T, k kind) []byte {
	defs := definitions{}
	shared := rapid.IntRange(0, 2).Draw(t, "hooks that all share")
	for i := range rapid.IntRange(1, 3).Draw(t, "devices") {
		var e inventory.Edits
		if rapid.Bool().Draw(t, "variable") {
			e.Env = inventory.Named(map[string]string{"A": rapid.SampledFrom([]string{"<1>", "2\n\"", "\\u2028\u2028", "é:😀"}).Draw(t, "value")})
		}
		if rapid.Bool().Draw(t, "node") {
			e.DeviceNodes = []inventory.DeviceNode{{Path: "/dev/a", HostPath: "/dev/b", Permissions: "rw"}}
		}
		for h := range shared {
			e.Hooks = append(e.Hooks, inventory.OCIHook{Name: "poststop", Path: fmt.Sprint("/bin/shared", h)})
		}
		if e.Empty() || rapid.Bool().Draw(t, "group") {
			e.AdditionalGIDs = []uint32{7}
		}
		key := inventory.Key{Backend: k.backend, ID: fmt.Sprint("dev-", i)}
		defs[key.ID] = &definition{key: key, base: content{of: &given{device: &inventory.Device{Key: key, Edits: e}}}}
	}
	var file bytes.Buffer
	if err := defs.write(&file, k); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// Verifies that a file of ours is read without the library, and that whatever else a file
// says is found as the library has it: the same devices, or an error.
func TestOwnSpecIsReadAsByTheLibrary(t *testing.T) {
	k := kind{backend: "mock", class: "gpu"}
	path := filepath.Join(t.TempDir(), k.specName())
	info := func() os.FileInfo {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	rapid.Check(t, func(t *rapid.T) {
		file := ownSpec(t, k)
		changes := [][2]string{
			{"", ""},
			{`"name"`, `"Name"`},
			{`"containerEdits"`, `"containerEdit"`},
			{`"/dev/a"`, `""`},
			{`"dev-1"`, `"dev-0"`},
			{`"dev-0"`, `"dev 0"`},
			{"mock", "knock"},
			{`"A=`, `"=`},
			{`"A=`, "\"A=\u007f"},
			{`"rw"`, `"rx"`},
			{`"poststop"`, `"postlude"`},
			{"[7]", "[]"},
			{`"devices"`, `"annotations": {"a b": "c"}, "devices"`},
			{`"0.`, `"9.`},
			{"}\n", "}\n}"},
			{"{", "["},
		}
		change := rapid.SampledFrom(changes).Draw(t, "change")
		changed := bytes.Replace(file, []byte(change[0]), []byte(change[1]), rapid.SampledFrom([]int{1, -1}).Draw(t, "times"))
		if err := os.WriteFile(path, changed, specMode); err != nil {
			t.Fatal(err)
		}
		if found, err := readOwn(path); bytes.Equal(changed, file) {
			if err != nil {
				t.Fatalf("a file of ours is not read: %v\n%s", err, file)
			}
			if f, err := found.file(path, info()); err != nil || f.stale {
				t.Fatalf("a file of ours is not taken for one: %v\n%s", err, file)
			}
		}
		got, gotErr := loadSpec(path)
		want, wantErr := readAny(path)
		var wanted *specFile
		if wantErr == nil {
			wanted, wantErr = want.file(path, info())
		}
		if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Fatalf("the error is %v, by the library %v\n%s", gotErr, wantErr, changed)
		}
		if wanted != nil && (!got.defs.same(wanted.defs) || got.stale != wanted.stale || got.written != wanted.written) {
			t.Fatalf("found %v, by the library %v\n%s", got.defs, wanted.defs, changed)
		}
	})
}

// What the spec of many devices takes at the start.
func BenchmarkLoad(b *testing.B) {
	const devices = 50_000
	dir := b.TempDir()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	var all []*inventory.Device
	for i := range devices {
		id := fmt.Sprint("dev-", i)
		all = append(all, &inventory.Device{
			Key: inventory.Key{Backend: "mock", ID: id}, Class: "gpu",
			Edits: inventory.Edits{
				Env:         inventory.Named(map[string]string{"DEVICE_" + fmt.Sprint(i): id}),
				DeviceNodes: []inventory.DeviceNode{{Path: "/dev/" + id, HostPath: "/dev/" + id, Permissions: "rw"}},
			},
		})
	}
	if names := s.Publish(all, nil); !names.RetryAt().IsZero() {
		b.Fatal("not written")
	}
	b.ReportAllocs()
	for b.Loop() {
		s, err := Open(Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		if len(s.files) != 1 {
			b.Fatal("not read")
		}
	}
}
