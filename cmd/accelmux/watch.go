package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/cmd/arguments"
)

// watching is what a command that repeats knows of where it prints.
type watching struct {
	// on: the output is repeated.
	on bool
	// width is that of the terminal, in characters; 0 if the output is none.
	width int
}

// withWatch adds -w, which repeats what a command prints.
func withWatch(command *cobra.Command) (*cobra.Command, *watching) {
	is := new(watching)
	command.Flags().BoolVarP(&is.on, "watch", "w", false, "repeat until Ctrl-C, on a terminal also until q")
	every := command.Flags().Duration("every", 2*time.Second, "interval of --watch, at least 1s")
	arguments.Needs(command, "watch", "every")
	show := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !is.on:
			return show(cmd, args)
		case *every < time.Second:
			return errors.New("--every must be at least 1s")
		}
		return is.repeat(cmd, *every, func() error { return show(cmd, args) })
	}
	return command, is
}

// repeat prints the output of show at each interval. On a terminal it has the whole screen, with what fits on
// it, until q is pressed. The end of the command's context is no error. After a first success, errors are printed
// and show is called again: the agent may be restarting.
func (is *watching) repeat(cmd *cobra.Command, every time.Duration, show func() error) error {
	out := cmd.OutOrStdout()
	defer cmd.SetOut(out)
	var keys <-chan struct{}
	tick := time.NewTicker(every)
	defer tick.Stop()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	defer signal.Stop(resized)
	for first := true; ; first = false {
		var text bytes.Buffer
		cmd.SetOut(&text)
		width, height := terminalSize(out)
		is.width = width
		err := show()
		switch {
		case cmd.Context().Err() != nil:
			return nil
		case err != nil && first: // no screen is open yet that would hide it
			return err
		case err != nil:
			fmt.Fprintln(&text, err)
		}
		if first && width > 0 {
			pressed, restore, err := openScreen(cmd.InOrStdin(), out)
			if err != nil {
				return err
			}
			defer restore()
			keys = pressed
		} else if !first && width == 0 {
			fmt.Fprintln(out)
		}
		if width > 0 {
			_, err = io.WriteString(out, clearScreen+paint(fit(text.String(), width, height), out))
		} else {
			_, err = out.Write(text.Bytes())
		}
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-resized:
		case <-keys:
			return nil
		case <-cmd.Context().Done():
			return nil
		}
	}
}

// fit cuts lines to width, and returns the first height lines, the last of which then says how many are left out.
func fit(text string, width, height int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if more := len(lines) - height; more > 0 {
		lines = append(lines[:height-1], fmt.Sprintf("and %d more lines: make the window higher", more+1))
	}
	for i, line := range lines {
		if r := []rune(line); len(r) > width {
			lines[i] = string(r[:width-1]) + "…"
		}
	}
	return strings.Join(lines, "\n")
}
