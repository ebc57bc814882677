"""What the built-in categories consist of: a second level, by which a long page of tools can be narrowed.

A tool is in a category, and in at most one sub-category of it, by the words of its name and texts. Scopes and
rules know categories alone: a sub-category only narrows what is found. A category of the operator goes before
a sub-category of the same name.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from maitred.model.categories import Category


def _parts(text: str) -> Mapping[str, tuple[str, ...]]:
    """Read lines of `name: word, two words`."""
    parts = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, words = line.partition(":")
        parts[name] = tuple(" ".join(word.split()) for word in words.split(",") if word.strip())
    return MappingProxyType(parts)


SUBCATEGORIES: Final[Mapping[str, Mapping[str, Sequence[str]]]] = MappingProxyType(
    {
        "code_analysis": _parts("""
            repositories: repo, repository, git, github, gitlab, bitbucket, gitea, commit, branch, merge, rebase, stash, checkout, cherry pick, blame, diff, pull request, merge request, fork, gist, release, changelog
            code_search: code search, search code, codebase, symbol, find symbol, definition, reference, call graph, caller, ast, syntax tree, tree sitter, language server, lsp, sourcegraph
            code_quality: lint, linter, formatter, format code, static analysis, code quality, complexity, refactor, rename symbol, dead code, code smell, code review, review comment, diagnostics, type check, sonarqube, codacy
            testing: debug, debugger, breakpoint, stack trace, unit test, run tests, test, test case, test coverage, pytest, jest
            libraries: package version, npm, pypi, crates, cargo, maven, dependency, library docs, api documentation, api reference, sdk, docs search, search docs, code example, documentation, context7
        """),  # noqa: E501  # a list of words is read by line
        "files_text": _parts("""
            folders: folder, directory, directory tree, list directory, move file, copy file, delete file, rename file, path exists, file metadata, symlink, zip, unzip, archive
            file_search: file search, find file, search files, glob, grep, ripgrep, compare files
            text_editing: read file, write file, edit file, edit text, plain text, text file, string replace, find and replace, append, line range, translate, spell check, grammar, word count
            notes: note, notes, obsidian, vault note, apple notes, evernote, logseq, joplin, markdown, frontmatter
            cloud_files: google drive, dropbox, onedrive, shared drive, file storage, upload file, download file
        """),  # noqa: E501
        "web_automation": _parts("""
            browsers: browser, chrome, chromium, firefox, playwright, puppeteer, selenium, headless, navigate, click, hover, scroll, press key, fill form, type text, screenshot, page snapshot, dom, css selector, element, tab, cookie, console messages, evaluate script
            web_search: web search, search the web, internet search, search engine, google search, bing, brave, duckduckgo, tavily, exa, serp, serpapi, perplexity, searxng, news search, image search
            scraping: fetch url, fetch page, fetch, http request, curl, crawl, crawler, scrape, scraper, firecrawl, apify, sitemap, html, web content, extract links, web archive, rss, feed
            mobile_devices: mobile device, simulator, android device, tap, swipe
        """),  # noqa: E501
        "documents": _parts("""
            pdf: pdf, merge pdf, split pdf, pdf pages, watermark, ocr, scanned page, extract text
            spreadsheets: spreadsheet, excel, xlsx, worksheet, workbook, google sheets, sheet, cell, cell range, formula, pivot table
            slides: pptx, powerpoint, presentation, slide, google slides, slide deck
            text_documents: docx, word document, google docs, google doc, paragraph, heading, footnote, table of contents, template, latex, epub, pandoc, contract, resume, citation style, bibliography, zotero
        """),  # noqa: E501
        "data": _parts("""
            databases: database, sql, query, sql query, execute query, table, schema, column, row, collection, postgres, postgresql, mysql, sqlite, duckdb, mongodb, redis, snowflake, bigquery, elasticsearch, neo4j, supabase, airtable, dynamodb
            charts_statistics: dataset, dataframe, pandas, csv, parquet, statistics, regression, correlation, chart, plot, histogram, visualization, tableau, power bi, metabase, analytics, google analytics, funnel
            finance: stock, share price, quote, ticker, market, finance, portfolio, earnings, balance sheet, dividend, forex, exchange rate, crypto, bitcoin, ethereum, token price, wallet, blockchain, nft, payment, invoice, transaction, refund, subscription
            science: patent, paper, arxiv, pubmed, article, citation, clinical trial, gene, protein, genome, compound, molecule, chemical, drug, disease, species
            public_data: census, economic, indicator, sec filing, sports, player, legislation, bill, statute, open data
        """),  # noqa: E501
        "infrastructure": _parts("""
            containers: kubernetes, kubectl, pod, deployment, namespace, cluster, helm, container, docker, docker image, compose, podman
            cloud: cloud, aws, azure, gcp, google cloud, s3, bucket, ec2, lambda, cloud run, cloudformation, terraform, pulumi, ansible, virtual machine, vm, instance, cost explorer, billing, resource group
            networks: dns, dns record, domain, nameserver, subnet, vpc, network, firewall, vpn, ip address, ping, traceroute, cdn, cache purge, cloudflare
            pipelines: ci, ci cd, build, build log, workflow run, github actions, jenkins, circleci, argocd, deploy, rollout, rollback, feature flag
            monitoring: monitor, monitoring, metric, prometheus, grafana, datadog, dashboard, log, trace, span, opentelemetry, alert, incident, pagerduty, uptime, health check, sentry, error tracking
            machines: ssh, remote command, shell, terminal, bash, powershell, execute command, run command, process, cpu, memory usage, disk usage, system info, restart, home assistant
        """),  # noqa: E501
        "ai": _parts("""
            models: llm, language model, model, chat completion, completion, prompt, openai, ollama, hugging face, inference, fine tune, train, training run, experiment, mlflow, wandb, evaluation run
            knowledge: embedding, vector, vector store, vector search, semantic search, rag, retrieval, knowledge base, memory, remember, recall, forget, knowledge graph, entity, observation, relation
            media: generate image, image generation, edit image, upscale, generate video, text to speech, speech, speech to text, transcribe, voice, generate music, image analysis, describe image, vision
            reasoning: sequential thinking, thinking, thought, reasoning, agent, sub agent, agent run
        """),  # noqa: E501
        "security": _parts("""
            vulnerabilities: vulnerability, cve, cwe, exploit, security scan, code scanning, secret scanning, dependabot, snyk, semgrep, trivy, nmap, port scan, penetration test, reverse engineering, decompile
            secrets: secret, secret manager, vault, credential, password, api key, rotate key, encrypt, decrypt, kms, certificate, ssl, tls
            identities: identity, authenticate, authentication, login, oauth, oidc, saml, sso, mfa, okta, auth0, keycloak, iam, permission, role, access control
            threats: threat, malware, phishing, virus, virustotal, indicator of compromise, attack, shodan, siem, detection, detection rule, forensic, breach
            compliance: policy, compliance, audit, audit log, gdpr, hipaa, soc 2, sbom, risk, sanctions, kyc
        """),  # noqa: E501
        "communication": _parts("""
            mail: email, mail, gmail, outlook, inbox, send email, draft, newsletter, mailing list, campaign, mailchimp, sendgrid
            chat: message, send message, chat, channel, direct message, slack, discord, telegram, whatsapp, sms, twilio, microsoft teams, reaction
            calendars: meeting, zoom, attendee, calendar, calendar event, event, schedule meeting, availability, appointment, booking
            projects: issue, jira, linear, ticket, task, todo, reminder, board, card, trello, asana, clickup, sprint, backlog, epic, milestone, project, time entry
            wikis: confluence, wiki, wiki page, notion, notion page, miro
            customers: crm, contact, customer, lead, deal, opportunity, company, hubspot, salesforce, zendesk, intercom, helpdesk, support ticket, survey
            social_media: tweet, twitter, linkedin, reddit, subreddit, mastodon, bluesky, facebook, instagram, social media, follower, comment
        """),  # noqa: E501
        "utilities": _parts("""
            time_numbers: time, current time, timezone, current date, convert time, timer, clock, calculator, calculate, math, equation, unit conversion, convert units, random, random number, dice, uuid, hash, base64, qr code
            weather_maps: weather, weather forecast, forecast, temperature, air quality, map, geocode, location, coordinates, directions, route, distance, place, nearby, elevation
            travel_leisure: flight, airport, hotel, trip, travel, train schedule, restaurant, recipe, food, nutrition, workout, music, song, playlist, spotify, movie, joke, game
            home: light, smart home, thermostat
        """),  # noqa: E501
    }
)
"""By category, the words of each sub-category. Names are words of the menu, and no two are the same."""


def subcategories_of(categories: Sequence[Category]) -> tuple[Category, ...]:
    """Return the sub-categories of some categories, without those whose names are categories themselves."""
    return tuple(_of(categories))


def _of(categories: Sequence[Category]) -> Iterator[Category]:
    taken = {category.name for category in categories}
    for category in categories:
        for name, words in SUBCATEGORIES.get(category.name, {}).items():
            if name not in taken:
                title = name.replace("_", " ").capitalize()
                yield Category(name=name, title=title, parent=category.name, words=tuple(words))
