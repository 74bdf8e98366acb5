package rig

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// Garbage is what a process has allocated so far, by its own runtime's counters.
type Garbage struct{ Bytes, Allocations float64 }

// Minus is what came on top of before.
func (g Garbage) Minus(before Garbage) Garbage {
	return Garbage{g.Bytes - before.Bytes, g.Allocations - before.Allocations}
}

// Times is g, n times.
func (g Garbage) Times(n float64) Garbage { return Garbage{g.Bytes * n, g.Allocations * n} }

// freePort is an address of this machine on which nothing listens.
func freePort() (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// collect asks an agent's /metrics for its counters.
func collect(address string) (Garbage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return Garbage{}, err
	}
	request.Header.Set("Accept-Encoding", "identity") // a compressor takes more than all else
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return Garbage{}, err
	}
	defer func() { _ = response.Body.Close() }() // read only
	var g Garbage
	found := 0
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		var into *float64
		switch name {
		case "go_memstats_alloc_bytes_total":
			into = &g.Bytes
		case "go_memstats_mallocs_total":
			into = &g.Allocations
		default:
			continue
		}
		if *into, err = strconv.ParseFloat(value, 64); err != nil {
			return Garbage{}, err
		}
		found++
	}
	if err := lines.Err(); err != nil || found != 2 {
		return Garbage{}, fmt.Errorf("/metrics of %s has %d of 2 counters: %w", address, found, err)
	}
	return g, nil
}

// asked is how often the counters are read before and after. A reading is taken while
// /metrics makes its answer, now at its beginning and now at its end, so a single one says
// little.
const asked = 400

// GarbageOf is what an agent allocates while do runs, without what asking takes.
func GarbageOf(address string, do func() error) (Garbage, error) {
	return GarbageBetween(address, asked, do)
}

// GarbageBetween is GarbageOf with so many readings before and after, at least 2: fewer
// where an answer takes long, and what is measured is much.
func GarbageBetween(address string, times int, do func() error) (Garbage, error) {
	times = max(times, 2)
	if _, err := readings(address, min(times, 5)); err != nil { // the first ones make what is kept
		return Garbage{}, err
	}
	before, err := readings(address, times)
	if err != nil {
		return Garbage{}, err
	}
	if err := do(); err != nil {
		return Garbage{}, err
	}
	after, err := readings(address, times)
	if err != nil {
		return Garbage{}, err
	}
	of := func(what func(Garbage) float64) float64 { return step(before, after, what) }
	return Garbage{of(func(g Garbage) float64 { return g.Bytes }), of(func(g Garbage) float64 { return g.Allocations })}, nil
}

func readings(address string, n int) ([]Garbage, error) {
	all := make([]Garbage, n)
	for i := range all {
		var err error
		if all[i], err = collect(address); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// step is what lies between two series that rise by themselves, by least squares: from
// where the first one would go on to where the second begins.
func step(before, after []Garbage, what func(Garbage) float64) float64 {
	half := (float64(len(before)) - 1) / 2
	middle, slope := line(before, what)
	goesOn := middle + slope*(half+1)
	middle, slope = line(after, what)
	return middle - slope*(float64(len(after))-1)/2 - goesOn
}

// line is the value in the middle of a series, and how much it rises with each reading.
func line(series []Garbage, what func(Garbage) float64) (middle, slope float64) {
	n := float64(len(series))
	for _, g := range series {
		middle += what(g) / n
	}
	var xx, xy float64
	for i, g := range series {
		x := float64(i) - (n-1)/2
		xx, xy = xx+x*x, xy+x*(what(g)-middle)
	}
	return middle, xy / xx
}
