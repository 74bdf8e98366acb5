package ras

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/sysfs"
)

// errBusy: the driver writes busy instead of counts while the card is in reset.
var errBusy = errors.New("the driver does not count while the card is in reset")

const busy = "Query currently inaccessible"

// parseErrors reads an err_count file: lines "ue: N", "ce: N", "de: N" in any
// order. At least one must be there, none twice. Lines of other names are of a newer kernel
// and ignored.
func parseErrors(text string) (Errors, error) {
	if strings.TrimSpace(text) == busy {
		return Errors{}, errBusy
	}
	var e Errors
	counts := map[string]*Count{"ue": &e.Uncorrectable, "ce": &e.Correctable, "de": &e.Deferred}
	found := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, number, ok := strings.Cut(line, ":")
		if !ok {
			return Errors{}, fmt.Errorf("the line %s is not of the form name: number", sysfs.Quote(line))
		}
		count := counts[name]
		if count == nil {
			continue
		}
		n, err := sysfs.ParseUint(strings.TrimSpace(number))
		switch {
		case err != nil:
			return Errors{}, fmt.Errorf("%s: %w", name, err)
		case count.Known:
			return Errors{}, fmt.Errorf("%s occurs twice", name)
		}
		*count, found = Count{N: n, Known: true}, true
	}
	if !found {
		return Errors{}, fmt.Errorf("%s has no count of errors", sysfs.Quote(text))
	}
	return e, nil
}

// parsePages counts the lines "address : size : state" of gpu_vram_bad_pages, where
// address and size are hexadecimal numbers of pages and bytes. Of a list that was
// cut, the last line is left out unless it is whole.
func parsePages(text string, cut bool) (Pages, error) {
	if cut {
		text = text[:strings.LastIndexByte(text, '\n')+1]
	}
	pages := Pages{Known: true}
	for line := range strings.Lines(text) {
		line = strings.Trim(line, " \t\r\n\x00")
		if line == "" {
			continue
		}
		parts := strings.Split(line, ":")
		if len(parts) != 3 || !hexadecimal(parts[0]) || !hexadecimal(parts[1]) {
			return Pages{}, fmt.Errorf("the line %s is not of the form address : size : state", sysfs.Quote(line))
		}
		switch state := strings.TrimSpace(parts[2]); state {
		case "R":
			pages.Retired++
		case "P":
			pages.Pending++
		case "F":
			pages.Failed++
		default:
			return Pages{}, fmt.Errorf("a page's state is %s, want R, P or F", sysfs.Quote(state))
		}
	}
	return pages, nil
}

func hexadecimal(text string) bool {
	digits, ok := strings.CutPrefix(strings.TrimSpace(text), "0x")
	if !ok || strings.Contains(digits, "_") {
		return false
	}
	_, err := strconv.ParseUint(digits, 16, 64)
	return err == nil
}
