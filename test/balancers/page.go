package balancers

import (
	"fmt"
	"os"
	"strings"
)

// Block returns the first fenced block of a page that is marked with a word, such as
// haproxy, with replacements: pairs of a text of the page and the text to use in its place.
// The first of each pair must be in the block.
func Block(page, mark string, replacements ...string) (string, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(string(text), "\n```"+mark+"\n")
	block, _, ended := strings.Cut(rest, "\n```\n")
	if !found || !ended {
		return "", fmt.Errorf("%s has no block %q", page, mark)
	}
	block += "\n"
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(block, replacements[i]) {
			return "", fmt.Errorf("%s: the block %q does not contain %q", page, mark, replacements[i])
		}
		block = strings.ReplaceAll(block, replacements[i], replacements[i+1])
	}
	return block, nil
}
