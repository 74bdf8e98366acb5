// Command mutate makes one small change (a mutation) in the code at a time and runs the tests of
// the changed package. A mutation with which all tests pass shows what they do not check.
//
//	go run ./test/mutate -n 100 -seed 1 -results mutations.json
//
// It inverts comparisons and conditions, drops statements and changes constants, in the packages
// of core and backends, or in those of -only. Which mutations the sample has depends on -seed and
// on the text of the changed lines, so that two commits have nearly the same sample. It works on a
// copy of the tree. The result is written after each mutation, and a run with the same results file skips the
// mutations that the file has. With -agent, a mutation with which the package's tests pass is also
// tried with the short tests of test/agent.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// Outcomes of a mutation. A mutation is also caught if the tests exceed -timeout.
const (
	caught   = "caught"
	survived = "survived"
	unbuilt  = "did not build"
)

// mutation is one change and its outcome.
type mutation struct {
	File, What, Outcome string
	Text                string // of the line
	Same                int    // counts the mutations of the file with the same What and Text
	Line, Index         int    // Index counts the mutations of the file
}

// key has the same value for the same mutation of another commit.
func (m mutation) key() string { return fmt.Sprintf("%s %s %q %d", m.File, m.What, m.Text, m.Same) }

// rank orders the mutations at random.
func (m mutation) rank(seed uint64) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, m.key())))
}

func main() {
	n := flag.Int("n", 100, "how many mutations to try")
	seed := flag.Uint64("seed", 1, "seed of the sample")
	results := flag.String("results", "mutations.json", "`file` of results, to which a later run adds")
	limit := flag.Duration("timeout", 5*time.Minute, "how long the tests of one mutation may take; then it is caught")
	agent := flag.Bool("agent", false, "also run the short tests of test/agent")
	only := flag.String("only", "core,backends", "`directories` to mutate, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, strings.Split(*only, ","), *n, *seed, *results, *limit, *agent)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dirs []string, n int, seed uint64, results string, limit time.Duration, agent bool) (err error) {
	all, err := find(dirs...)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b mutation) int { return strings.Compare(a.rank(seed), b.rank(seed)) })
	all = all[:min(n, len(all))]
	var done []mutation
	if text, err := os.ReadFile(results); err == nil {
		if err := json.Unmarshal(text, &done); err != nil {
			return fmt.Errorf("%s: %w", results, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	known := map[string]string{}
	for _, m := range done {
		known[m.key()] = m.Outcome
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// Tracked and untracked files, as they are in the working tree, but neither ignored ones nor .git.
	copied, err := exec.CommandContext(ctx, "sh", "-c", `git ls-files -coz --exclude-standard | tar -c --null --ignore-failed-read -T - | tar -x -C "$1"`, "sh", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copy the tree: %w: %s", err, copied)
	}
	healthy := map[string]bool{} // packages whose tests pass without a mutation
	for i := range all {
		m := &all[i]
		if m.Outcome = known[m.key()]; m.Outcome != "" {
			continue
		}
		pkg := "./" + filepath.Dir(m.File)
		if !healthy[pkg] && !passes(ctx, dir, limit, "test", pkg) {
			return fmt.Errorf("the tests of %s fail without a mutation, or take longer than %v", pkg, limit)
		}
		healthy[pkg] = true
		if m.Outcome, err = try(ctx, dir, *m, limit, agent); err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		fmt.Printf("%-13s  %s:%d %s\n", m.Outcome, m.File, m.Line, m.What)
		done = append(done, *m)
		text, err := json.MarshalIndent(done, "", "  ")
		if err == nil {
			err = os.WriteFile(results, append(text, '\n'), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return table(all)
}

// try makes one mutation in the copy, runs the tests, and restores the file.
func try(ctx context.Context, dir string, m mutation, limit time.Duration, agent bool) (_ string, err error) {
	path := filepath.Join(dir, m.File)
	before, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, before, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	mutations(files, file)[m.Index].apply()
	var after bytes.Buffer
	if err := printer.Fprint(&after, files, file); err != nil {
		return "", err
	}
	if err := os.WriteFile(path, after.Bytes(), 0o644); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.WriteFile(path, before, 0o644)) }()
	pkg := "./" + filepath.Dir(m.File)
	if !passes(ctx, dir, limit, "build", pkg) {
		return unbuilt, nil
	}
	if !passes(ctx, dir, limit, "test", pkg) || agent && !passes(ctx, dir, limit, "test", "-short", "./test/agent") {
		return caught, nil
	}
	return survived, nil
}

// passes reports whether the go command succeeds in the copy within the limit.
func passes(ctx context.Context, dir string, limit time.Duration, args ...string) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir, command.WaitDelay = dir, 10*time.Second
	return command.Run() == nil
}

// find returns every possible mutation below the directories, in the order of files and lines.
func find(dirs ...string) (all []mutation, err error) {
	for _, dir := range dirs {
		err = errors.Join(err, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "examples" || strings.HasSuffix(entry.Name(), "test")) {
				return filepath.SkipDir // doubles and examples
			}
			if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil || ast.IsGenerated(file) {
				return err
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			lines, same := strings.Split(string(source), "\n"), map[string]int{}
			for i, c := range mutations(files, file) {
				m := mutation{File: path, Line: c.line, Index: i, What: c.what, Text: strings.TrimSpace(lines[c.line-1])}
				m.Same = same[m.What+m.Text]
				same[m.What+m.Text]++
				all = append(all, m)
			}
			return nil
		}))
	}
	return all, err
}

// change is a possible mutation of a parsed file.
type change struct {
	line  int
	what  string
	apply func()
}

// opposite has the operator that replaces one of a comparison or a condition.
var opposite = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ, token.GEQ: token.LSS,
	token.GTR: token.LEQ, token.LEQ: token.GTR, token.LAND: token.LOR, token.LOR: token.LAND,
}

// mutations returns the possible mutations of a file; the same file gives the same order.
func mutations(files *token.FileSet, file *ast.File) (all []change) {
	add := func(at token.Pos, what string, apply func()) {
		all = append(all, change{files.Position(at).Line, what, apply})
	}
	drop := func(list []ast.Stmt) {
		for i, s := range list {
			_, call := s.(*ast.ExprStmt)
			a, assign := s.(*ast.AssignStmt)
			r, leave := s.(*ast.ReturnStmt)
			if call || assign && a.Tok != token.DEFINE || leave && len(r.Results) == 0 {
				add(s.Pos(), "drop the statement", func() { list[i] = &ast.EmptyStmt{Semicolon: s.Pos(), Implicit: true} })
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.Field:
			return false // import paths, struct tags
		case *ast.BlockStmt:
			drop(n.List)
		case *ast.CaseClause:
			drop(n.Body)
		case *ast.CommClause:
			drop(n.Body)
		case *ast.BinaryExpr:
			if op, ok := opposite[n.Op]; ok {
				add(n.OpPos, fmt.Sprintf("%s becomes %s", n.Op, op), func() { n.Op = op })
			}
		case *ast.BasicLit:
			if n.Kind == token.INT {
				add(n.Pos(), n.Value+" becomes "+n.Value+" + 1", func() { n.Value = "(" + n.Value + " + 1)" })
			}
		case *ast.Ident:
			if other, ok := map[string]string{"true": "false", "false": "true"}[n.Name]; ok {
				add(n.Pos(), n.Name+" becomes "+other, func() { n.Name = other })
			}
		}
		return true
	})
	return all
}

// table prints the number of mutations by package and outcome.
func table(all []mutation) error {
	counts := map[string]map[string]int{}
	for _, m := range all {
		for _, pkg := range []string{filepath.Dir(m.File), "total"} {
			if counts[pkg] == nil {
				counts[pkg] = map[string]int{}
			}
			counts[pkg][m.Outcome]++
		}
	}
	packages := make([]string, 0, len(counts))
	for pkg := range counts {
		packages = append(packages, pkg)
	}
	slices.Sort(packages)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\npackage\t%s\t%s\t%s\n", caught, survived, unbuilt)
	for _, pkg := range packages {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", pkg, counts[pkg][caught], counts[pkg][survived], counts[pkg][unbuilt])
	}
	return w.Flush()
}
