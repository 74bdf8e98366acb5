// Package plug is how a backend's program is run, by the agent and by tools alike. It finds the program with its manifest
// in the backend directory and checks that only root, and the user of this process, can exchange either.
//
// It does not decide what runs when: package supervisor does.
package plug
