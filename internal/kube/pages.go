package kube

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A page of a list must arrive within one request's MaxTimeout. Other users decide how large
// the objects are that a selector selects, so the pages adapt: each kind of list remembers how
// many objects fit into a page.

const (
	// maxPage bounds the objects of a page.
	maxPage = 500
	// minPageUnseen bounds how small the pages become while nothing arrives at all:
	// then the kube-apiserver may hang, whatever the size.
	minPageUnseen = 25
	// A page that takes longer than slowPage is too large. Pages grow again after a
	// list that took less than quickList as a whole.
	slowPage, quickList = MaxTimeout / 2, MaxTimeout / 8
)

// pages are the sizes of pages that are smaller than maxPage.
type pages struct {
	mu    sync.Mutex // mu guards sizes
	sizes map[string]int
}

// size returns how many objects a page of a list asks for.
func (p *pages) size(list string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if size, small := p.sizes[list]; small {
		return size
	}
	return maxPage
}

// resize sets the size of the pages of a list.
func (p *pages) resize(list string, size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sizes == nil {
		p.sizes = map[string]int{}
	}
	p.sizes[list] = max(1, size)
	if size >= maxPage {
		delete(p.sizes, list)
	}
}

// arrived notes how long a page took, of a size, and that it was complete.
func (p *pages) arrived(list string, size int, took time.Duration) {
	if took > slowPage {
		p.resize(list, size/2)
	}
}

// failed notes that a page of a size failed after some of its objects arrived. Only a page that
// took too long was too large.
func (p *pages) failed(list string, size, objects int, err error) {
	if !errors.Is(err, context.DeadlineExceeded) && !apierrors.IsTimeout(err) {
		return
	}
	if objects == 0 {
		p.resize(list, max(size/2, min(size, minPageUnseen)))
		return
	}
	p.resize(list, min(size, objects)/2)
}

// ended notes how long a complete list took.
func (p *pages) ended(list string, took time.Duration) {
	if size := p.size(list); size < maxPage && took < quickList {
		p.resize(list, 2*size)
	}
}
