package ras

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/sysroot"
)

// card makes a directory of a PCI function with these files.
func card(t testing.TB, files map[string]string) string {
	t.Helper()
	made := sysroot.NewFiles(t)
	for name, text := range files {
		made.File(name, text)
	}
	return made.Root
}

func known(n uint64) Count { return Count{N: n, Known: true} }

// A card with all files, as a data-centre driver has them.
func TestRead(t *testing.T) {
	got, err := Read(card(t, map[string]string{
		"ras/umc_err_count":       "ue: 2\nce: 17\nde: 1\n",
		"ras/gfx_err_count":       "ue: 0\nce: 3\n",
		"ras/xgmi_wafl_err_count": "ce: 18446744073709551615\nue: 1\nnew: x\n",
		"ras/features":            "feature mask: 0x7f\n",
		"ras/_err_count":          "nameless\n",
		"ras/gpu_vram_bad_pages": "0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : P\n" +
			"0x00000003 : 0x00001000 : R\n0x100000000 : 0x00001000 : F\n",
		"xgmi_error": "2\n",
	}), true)
	if err != nil {
		t.Fatal(err)
	}
	want := Counters{
		Blocks: map[string]Errors{
			"umc":       {Uncorrectable: known(2), Correctable: known(17), Deferred: known(1)},
			"gfx":       {Uncorrectable: known(0), Correctable: known(3)},
			"xgmi_wafl": {Uncorrectable: known(1), Correctable: known(1<<64 - 1)},
		},
		Pages: Pages{Known: true, Retired: 2, Pending: 1, Failed: 1},
		XGMI:  known(2),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := got.Uncorrectable(); got != known(3) {
		t.Errorf("%+v uncorrectable errors, want 3", got)
	}
}

// What a driver does not have is unknown; an empty list of pages is a list.
func TestMissingIsUnknown(t *testing.T) {
	got, err := Read(card(t, map[string]string{"vendor": "0x1002\n"}), true)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Counters{Blocks: map[string]Errors{}}, got); diff != "" {
		t.Error(diff)
	}
	if sum := got.Uncorrectable(); sum.Known {
		t.Errorf("%d uncorrectable errors of no block", sum.N)
	}
	got, err = Read(card(t, map[string]string{"ras/gfx_err_count": "ue: 1\nce: 2\n"}), true)
	if err != nil || got.Uncorrectable() != known(1) || got.Blocks["gfx"].Deferred.Known {
		t.Errorf("an old kernel: %+v, %v", got, err)
	}
	got, err = Read(card(t, map[string]string{"ras/gpu_vram_bad_pages": ""}), true)
	if err != nil || got.Pages != (Pages{Known: true}) {
		t.Errorf("an empty list of pages: %+v, %v", got.Pages, err)
	}
	if _, err := Read(filepath.Join(t.TempDir(), "gone"), true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a card that is gone: %v", err)
	}
}

// A malformed file makes its own counts unknown, and is named with the reason.
func TestBadFiles(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"negative":         {"ras/umc_err_count", "ue: -1\nce: 0\n", `ue: "-1" is no number`},
		"over 64 bits":     {"ras/umc_err_count", "ue: 18446744073709551616\n", "more than 64 bits"},
		"twice":            {"ras/umc_err_count", "ue: 1\nue: 2\n", "ue occurs twice"},
		"binary":           {"ras/umc_err_count", "\x00\x01\xff", "not of the form"},
		"empty":            {"ras/umc_err_count", "", "no count of errors"},
		"other names":      {"ras/umc_err_count", "xe: 1\n", "no count of errors"},
		"endless":          {"ras/umc_err_count", strings.Repeat("ue: 1\n", 20_000), "longer than can be"},
		"page without end": {"ras/gpu_vram_bad_pages", "0x1 : 0x1000\n", "not of the form address"},
		"page of a state":  {"ras/gpu_vram_bad_pages", "0x1 : 0x1000 : X\n", `state is "X"`},
		"page nowhere":     {"ras/gpu_vram_bad_pages", "1 : 0x1000 : R\n", "not of the form address"},
		"page too far":     {"ras/gpu_vram_bad_pages", "0x10000000000000000 : 0x1000 : R\n", "not of the form address"},
		"links":            {"xgmi_error", "0x2\n", `"0x2" is no number`},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{
				"ras/umc_err_count": "ue: 1\nce: 1\n", "ras/gfx_err_count": "ue: 5\nce: 6\n",
				"ras/gpu_vram_bad_pages": "0x1 : 0x1000 : R\n", "xgmi_error": "1\n",
			}
			files[c.file] = c.text
			got, err := Read(card(t, files), true)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.file) {
				t.Errorf("the error is %v, want %q and the file", err, c.want)
			}
			if len(fmt.Sprint(err)) > 400 {
				t.Errorf("the error has %d characters", len(fmt.Sprint(err)))
			}
			if got.Blocks["gfx"].Uncorrectable != known(5) {
				t.Errorf("another block's counts are lost: %+v", got)
			}
			for file, stays := range map[string]bool{
				"ras/umc_err_count":      got.Blocks["umc"].Uncorrectable.Known,
				"ras/gpu_vram_bad_pages": got.Pages.Known,
				"xgmi_error":             got.XGMI.Known,
			} {
				if stays == (file == c.file) {
					t.Errorf("%s: known %v", file, stays)
				}
			}
		})
	}
}

// While the card is in reset the driver writes a text instead of counts, which is no error.
func TestBusy(t *testing.T) {
	got, err := Read(card(t, map[string]string{
		"ras/umc_err_count": "Query currently inaccessible\n", "ras/gfx_err_count": "ue: 5\nce: 6\n",
	}), true)
	if _, counted := got.Blocks["umc"]; err != nil || !got.Busy || counted || got.Uncorrectable() != known(5) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Read(card(t, map[string]string{"ras/umc_err_count": "ue: 1\nce: 0\n"}), true); err != nil || got.Busy {
		t.Errorf("after the reset: %+v, %v", got, err)
	}
}

// The driver clears xgmi_error when it is read, so callers add up.
func TestXGMI(t *testing.T) {
	dir := card(t, map[string]string{"xgmi_error": "2\n"})
	got, err := Read(dir, true)
	if got.XGMI != known(2) || err != nil {
		t.Errorf("%+v, %v", got.XGMI, err)
	}
	if got, err := Read(dir, false); got.XGMI.Known || err != nil {
		t.Errorf("without links: %+v, %v", got.XGMI, err)
	}
	if sum := (Count{}).Plus(got.XGMI).Plus(known(1)).Plus(Count{}); sum != known(3) {
		t.Errorf("the sum is %+v", sum)
	}
	if sum := known(3).Plus(known(1<<64 - 1)); sum != known(1<<64-1) {
		t.Errorf("the largest sum is %+v", sum)
	}
}

// A file whose number the driver does not have for this card counts as missing; another error
// is returned.
func TestNotCounted(t *testing.T) {
	dir := card(t, map[string]string{"ras/umc_err_count": "ue: 0\n"})
	for cause, want := range map[error]string{
		unix.EINVAL: "", unix.EOPNOTSUPP: "", unix.EIO: "xgmi_error: input/output error", unix.ENODEV: "no such device",
	} {
		number := func(path string) (uint64, error) { return 0, &fs.PathError{Op: "read", Path: path, Err: cause} }
		got, err := read(dir, true, number)
		if got.XGMI.Known || !got.Uncorrectable().Known {
			t.Errorf("%v: %+v", cause, got)
		}
		if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", cause, err, want)
		}
	}
}

func FuzzParseErrors(f *testing.F) {
	for _, s := range []string{"ue: 1\nce: 2\nde: 3\n", "ue:1", "Query currently inaccessible\n", "ue: -1", "", "\x00", "ue"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parseErrors(text)
		anything := e.Uncorrectable.Known || e.Correctable.Known || e.Deferred.Known
		if (err == nil) != anything {
			t.Errorf("%q: %+v, %v", text, e, err)
		}
	})
}

func FuzzParsePages(f *testing.F) {
	for _, s := range []string{"0x1 : 0x1000 : R\n", "0x1:0x1:F\n0x2", "::", "", "\x00\n", "0x : 0x1 : P"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, text string, cut bool) {
		pages, err := parsePages(text, cut)
		if err == nil && pages.Retired+pages.Pending+pages.Failed > uint64(strings.Count(text, ":")/2) {
			t.Errorf("%q: %+v", text, pages)
		}
	})
}
