import type { Page } from 'playwright-core'
import type { InBrowser } from './chromium.ts'

/**
 * Texts whose contrast with their background, as computed in the browser, is below WCAG AA, and how many texts were
 * checked.
 */
export async function faintTexts(page: Page): Promise<{ readonly faint: readonly string[]; readonly checked: number }> {
  return page.locator('body').evaluate((body) => {
    const { getComputedStyle, NodeFilter, SVGElement } = body.ownerDocument.defaultView
    const channels = (colour: string): readonly number[] => (colour.match(/[\d.]+/g) ?? []).map(Number)
    const luminance = (colour: string): number => {
      const [red = 0, green = 0, blue = 0] = channels(colour).map((channel) => {
        const value = channel / 255
        return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
      })
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue
    }
    const under = (element: InBrowser): string => {
      if (element === null) return 'rgb(255, 255, 255)'
      const { backgroundColor } = getComputedStyle(element)
      return channels(backgroundColor)[3] === 0 ? under(element.parentElement) : backgroundColor
    }
    const faint: string[] = []
    let checked = 0
    const walker = body.ownerDocument.createTreeWalker(body, NodeFilter.SHOW_TEXT)
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement
      const text = walker.currentNode.textContent?.trim() ?? ''
      if (element === null || text === '' || element.closest('title') !== null || !element.checkVisibility()) continue
      checked++
      const { color, fill } = getComputedStyle(element)
      const lights = [luminance(element instanceof SVGElement ? fill : color), luminance(under(element))]
      const [brighter = 0, darker = 0] = lights.sort((a, b) => b - a)
      if ((brighter + 0.05) / (darker + 0.05) < 4.5) faint.push(`${text} (${color} on ${under(element)})`)
    }
    return { faint, checked }
  })
}

/**
 * Texts that reach beyond the page, that an element cuts off, or that are too small. A region that scrolls by itself
 * may be wider than the page.
 */
export async function clippedTexts(page: Page): Promise<readonly string[]> {
  return page.locator('body').evaluate((body) => {
    const document = body.ownerDocument
    const { getComputedStyle, NodeFilter } = document.defaultView
    const clipped: string[] = []
    const walker = body.ownerDocument.createTreeWalker(body, NodeFilter.SHOW_TEXT)
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement
      const text = walker.currentNode.textContent?.trim() ?? ''
      if (element === null || text === '' || element.closest('title,.skip') !== null || !element.checkVisibility())
        continue
      if (Number.parseFloat(getComputedStyle(element).fontSize) < 11) clipped.push(`too small: ${text}`)
      const range = document.createRange()
      range.selectNodeContents(walker.currentNode)
      const scroller = element.closest('[role=region]')
      const inside = scroller === null ? 0 : scroller.scrollLeft
      const right = scroller === null ? document.documentElement.clientWidth : Number.POSITIVE_INFINITY
      for (const box of range.getClientRects()) {
        if (box.left + inside < -0.5 || box.right > right + 0.5) clipped.push(`beyond the page: ${text}`)
      }
      for (let around: InBrowser = element; around !== null; around = around.parentElement) {
        const { overflowX } = getComputedStyle(around)
        if (overflowX !== 'hidden' && overflowX !== 'clip') continue
        if (around.scrollWidth > around.clientWidth) clipped.push(`cut off: ${text}`)
      }
    }
    return clipped
  })
}

/** The names of all elements that the keyboard can reach, in order. */
export async function stopsToExpect(page: Page): Promise<readonly string[]> {
  return page
    .locator('a[href], summary, [tabindex="0"]')
    .evaluateAll((all) =>
      all
        .filter((one) => one.checkVisibility())
        .map((one) => one.getAttribute('aria-label') ?? one.textContent?.trim() ?? ''),
    )
}

/**
 * The elements that Tab reaches, from the start of the page, and whether the focus is visible: an outline, inside the
 * window.
 */
export async function focusStops(
  page: Page,
  most: number,
): Promise<readonly { readonly name: string; readonly seen: boolean }[]> {
  const stops: { readonly name: string; readonly seen: boolean }[] = []
  for (let count = 0; count < most + 5; count++) {
    await page.keyboard.press('Tab')
    const stop = await page.locator('body').evaluate((body) => {
      const { activeElement: element, defaultView } = body.ownerDocument
      if (element === null || element === body) return undefined
      const { getComputedStyle, innerHeight } = defaultView
      const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(element)
      const { top, bottom, left, width, height } = element.getBoundingClientRect()
      const outlined = outlineStyle === 'solid' && Number.parseFloat(outlineWidth) >= 2 && !/, 0\)$/.test(outlineColor)
      const visible = bottom > 0 && top < innerHeight && left >= 0 && width > 0 && height > 0
      return {
        name: element.getAttribute('aria-label') ?? element.textContent?.trim() ?? '',
        seen: outlined && visible,
      }
    })
    if (stop === undefined) break
    stops.push(stop)
  }
  return stops
}
