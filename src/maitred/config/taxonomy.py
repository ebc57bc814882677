"""The categories of the menu and the tags of tools: the built-in words, and an operator's changes.

A category says what the caller gets done, not what a server is made of: a database of customers is for data,
a board of issues for working together. Its words are the usual names and verbs of such tools; two words count
as a phrase, which goes before each of its words. A tag is `dimension:tag`, from a fixed vocabulary in four
dimensions. The words beside it mark it in a tool's name and first sentence; ordinary words ("go", "spring")
count only in a phrase.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from maitred.model.categories import Category
from maitred.wording import did_you_mean, near_names, quote_input

FALLBACK: Final = "utilities"
"""The category of a tool about which nothing is known."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def _words(text: str) -> tuple[str, ...]:
    return tuple(" ".join(word.split()) for word in text.split(",") if word.strip())


CATEGORIES: Final[tuple[Category, ...]] = (
    Category(
        name="code_analysis",
        title="Code analysis & refactoring",
        description="Read, write, review, test and refactor source code, and work with its repositories.",
        words=_words("""
            code, source code, code search, codebase, repo, repository, git, github, gitlab, bitbucket,
            gitea, gerrit, commit, branch, merge, rebase, stash, checkout, cherry pick, blame, diff,
            pull request, merge request, code review, review comment, fork, gist, release, changelog, patch,
            symbol, definition, reference, call graph, caller, callee, ast, abstract syntax tree,
            syntax tree, tree sitter, parser, lint, linter, formatter, static analysis, code quality,
            complexity, refactor, rename symbol, extract method, dead code, code smell, compile, compiler,
            debug, debugger, breakpoint, stack trace, unit test, run tests, test case, test coverage,
            test suite, pytest, jest, language server, lsp, diagnostics, type check, snippet, function,
            method, class, module, import, package version, npm, pypi, crates, cargo, maven, dependency,
            dependencies, library docs, library documentation, api documentation, api reference, sdk,
            sdk docs, docs search, search docs, code example, developer documentation, context7, scaffold,
            boilerplate, component, ui component, design system, figma, run code, execute code,
            code interpreter, xcode, build project, gradle, unity, game object, sonarqube, codacy,
            sourcegraph
        """),
    ),
    Category(
        name="files_text",
        title="Files & text",
        description="Read, write, move, find and compare files and folders, and edit plain text.",
        words=_words("""
            file, filesystem, file system, file search, file content, read file, write file, edit file,
            move file, copy file, delete file, rename file, folder, directory, directory tree, subdirectory,
            path exists, glob, grep, ripgrep, regex replace, find and replace, text, plain text, text file,
            edit text, string replace, append, overwrite, line range, lines, compare files, checksum, zip,
            unzip, archive, compress, extract archive, symlink, upload file, download file, google drive,
            dropbox, onedrive, file storage, shared drive, file metadata, markdown, markdown file,
            frontmatter, obsidian, vault note, note, apple notes, evernote, logseq, joplin, bear,
            scratchpad, text editor, word count, character count, translate text, translate, spell check,
            grammar, proofread, resize image, crop image, convert image, image metadata, exif, json file,
            yaml file, xml file
        """),
    ),
    Category(
        name="web_automation",
        title="Web automation & scraping",
        description="Drive browsers, search the web, and fetch, crawl and scrape pages.",
        words=_words("""
            browser, browse, chrome, chromium, firefox, playwright, puppeteer, selenium, headless, web page,
            webpage, page, navigate, navigate back, url, click, double click, hover, scroll, press key,
            fill form, form field, type text, select option, drag, screenshot, page snapshot,
            accessibility snapshot, dom, css selector, xpath, element, tab, cookie, console messages,
            network requests, evaluate script, dialog, viewport, web search, search the web,
            internet search, search engine, google search, bing, brave, duckduckgo, tavily, exa, serp,
            serpapi, perplexity, searxng, news search, image search, fetch url, fetch page, fetch webpage,
            http request, http get, curl, crawl, crawler, scrape, scraper, scraping, firecrawl, apify,
            brightdata, sitemap, robots txt, html, web content, website, site map, extract links, wayback,
            web archive, rss, feed, browserbase, stagehand, user agent, proxy, captcha, web reader,
            wikipedia, youtube, transcript, mobile device, simulator, android device, tap, swipe, seo,
            backlink, keyword ranking
        """),
    ),
    Category(
        name="documents",
        title="Documents",
        description="Make, read, convert and edit office documents: PDF, Word, slides, spreadsheets, forms.",
        words=_words("""
            document, pdf, docx, word document, google doc, google docs, paragraph, heading, footnote,
            header and footer, table of contents, page break, page number, pptx, powerpoint, presentation,
            slide, google slides, slide deck, spreadsheet, excel, xlsx, xls, worksheet, workbook,
            google sheets, sheet, cell range, cell, formula, pivot table, chart sheet, merge cells,
            column width, template, fill template, mail merge, ocr, extract text, scanned page,
            convert document, pandoc, latex, epub, ebook, odt, rtf, libreoffice, form fields, sign document,
            esignature, docusign, watermark, merge pdf, split pdf, pdf pages, page layout, text box, bullet,
            citation style, bibliography, zotero, contract, resume, report document, export pdf,
            invoice pdf
        """),
    ),
    Category(
        name="data",
        title="Data processing & analysis",
        description="Query databases, look up financial, scientific and public data, analyse and chart it.",
        words=_words("""
            database, sql, query, sql query, execute query, run query, table, schema, column, row, rows,
            collection, aggregate, aggregation, postgres, postgresql, mysql, mariadb, sqlite, duckdb,
            mongodb, mongo, redis, snowflake, bigquery, redshift, databricks, clickhouse, elasticsearch,
            opensearch, neo4j, cypher, graph database, supabase, airtable, dynamodb, cassandra, cosmos,
            oracle, sql server, data warehouse, dataset, dataframe, pandas, csv, parquet, json data, etl,
            dbt, pipeline run, transform data, data source, statistics, statistical, regression,
            correlation, chart, plot, graph, histogram, visualization, visualize, bi, tableau, power bi,
            metabase, looker, grafana query, analytics, google analytics, cohort, funnel, stock,
            share price, quote, ticker, market, market data, finance, financial, portfolio, earnings,
            balance sheet, income statement, cash flow, dividend, option chain, forex, exchange rate,
            currency, crypto, cryptocurrency, bitcoin, ethereum, token price, wallet, blockchain, nft, defi,
            swap, trade, order book, candle, payment, invoice, transaction, refund, subscription, price,
            product, inventory, census, economic, indicator, sec filing, patent, paper, arxiv, pubmed,
            article, citation, clinical trial, gene, protein, genome, variant, compound, molecule, chemical,
            drug, disease, species, sports, team stats, player, legislation, bill, statute, open data,
            time series, forecast model, search index
        """),
    ),
    Category(
        name="infrastructure",
        title="Infrastructure & DevOps",
        description="Run and watch clusters, cloud resources, servers, deployments, pipelines and networks.",
        words=_words("""
            kubernetes, kubectl, k8s, pod, deployment, deploy, namespace, node, cluster, helm, ingress,
            container, docker, docker image, image tag, registry, compose, podman, volume, cloud, aws,
            azure, gcp, google cloud, s3, bucket, ec2, lambda, ecs, eks, gke, aks, cloud run,
            cloudformation, terraform, pulumi, ansible, opentofu, infrastructure, virtual machine, vm,
            instance, hypervisor, proxmox, vmware, server status, ssh, remote command, shell, terminal,
            bash, powershell, execute command, run command, kill process, cpu, memory usage, disk,
            disk usage, system info, restart, reboot, scale, replica, rollout, rollback, autoscaling,
            load balancer, dns, dns record, domain, nameserver, subnet, vpc, network, route table, gateway,
            firewall, vpn, ip address, ping, traceroute, port, cdn, cache purge, cloudflare, worker, vercel,
            netlify, heroku, railway, flyio, ci, ci cd, pipeline, build, build log, workflow run,
            github actions, jenkins, circleci, argocd, job run, monitor, monitoring, metric, prometheus,
            promql, grafana, datadog, new relic, dashboard, log, trace, span, opentelemetry, alert,
            incident, pagerduty, on call, uptime, health check, sentry, error tracking, exception event,
            outage, queue, kafka, rabbitmq, message queue, environment variable, cost explorer, billing,
            quota, service catalog, feature flag, backup, resource group, subscription id, home assistant,
            list processes, process list, kafka topic
        """),
    ),
    Category(
        name="ai",
        title="AI & machine learning",
        description="Ask and train models, keep and retrieve knowledge, generate images, speech and video.",
        words=_words("""
            ai, llm, language model, model, chat completion, completion, prompt, openai, anthropic, claude,
            gemini, gpt, mistral, ollama, huggingface, hugging face, replicate, inference, fine tune,
            training run, train, train model, experiment, mlflow, wandb, weights and biases, checkpoint,
            embedding, vector, vector store, vector database, vector search, semantic search,
            similarity search, rag, retrieval, knowledge base, pinecone, qdrant, chroma, weaviate, milvus,
            memory, remember, recall, forget, long term memory, mem0, knowledge graph, entity, observation,
            relation, sequential thinking, thinking, thought, reasoning, think, agent, sub agent, subagent,
            agent run, generate image, image generation, text to image, edit image, inpaint, upscale,
            stable diffusion, dall e, midjourney, comfyui, generate video, video generation, text to video,
            text to speech, tts, speech, speech to text, transcribe, transcription, voice, voice clone,
            elevenlabs, generate music, music generation, sound effect, image analysis, analyze image,
            describe image, vision, object detection, classify, classification, sentiment, summarize,
            summarise, summary, machine learning, neural network, dataset split, evaluation run, eval,
            langfuse, langsmith, conversation history, avatar
        """),
    ),
    Category(
        name="security",
        title="Security & compliance",
        description="Manage secrets, identities and permissions; find vulnerabilities and threats; audit.",
        words=_words("""
            security, vulnerability, cve, cwe, exploit, security scan, vulnerability scan, code scanning,
            secret scanning, dependabot, sast, dast, snyk, semgrep, trivy, nmap, port scan, burp,
            penetration test, pentest, threat, threat intelligence, malware, phishing, virus, virustotal,
            ioc, indicator of compromise, suspicious, attack, attack surface, shodan, censys, siem,
            detection, detection rule, splunk, forensic, reverse engineering, decompile, disassemble,
            ghidra, ida, secret, secret manager, vault, hashicorp vault, credential, password,
            password manager, api key, rotate key, encrypt, decrypt, encryption, kms, certificate, ssl, tls,
            identity, identity provider, authenticate, authentication, authorization, login, logout, oauth,
            oidc, saml, sso, mfa, two factor, okta, auth0, keycloak, entra, active directory, iam,
            iam policy, permission, role, role assignment, access control, access policy, rbac,
            grant access, revoke, policy, compliance, audit, audit log, gdpr, hipaa, soc 2, pci, sbom,
            license compliance, risk, risk score, sanctions, kyc, breach, leaked, quarantine,
            endpoint detection, crowdstrike, waf
        """),
    ),
    Category(
        name="communication",
        title="Communication & collaboration",
        description="Mail, chat, meetings and calendars; issues, tasks, projects, wikis and customers.",
        words=_words("""
            email, mail, gmail, outlook, inbox, send email, draft, reply, thread, label, attachment,
            recipient, newsletter, mailing list, campaign, mailchimp, sendgrid, message, send message, chat,
            channel, direct message, dm, slack, discord, telegram, whatsapp, sms, twilio, phone call,
            call recording, imessage, microsoft teams, reaction, mention, notify, notification, post, tweet,
            twitter, linkedin, reddit, subreddit, mastodon, bluesky, facebook, instagram, social media,
            follower, comment, meeting, zoom, attendee, calendar, calendar event, event, schedule meeting,
            availability, free busy, appointment, booking, calendly, issue, jira, linear, ticket, task,
            subtask, to do, todo, reminder, board, card, list card, trello, asana, clickup, monday, todoist,
            sprint, backlog, epic, story, milestone, project, project management, time entry, assignee,
            workspace, team, member, confluence, wiki, wiki page, notion, notion page, miro, crm, contact,
            customer, lead, deal, opportunity, company, hubspot, salesforce, pipedrive, attio, zendesk,
            intercom, helpdesk, support ticket, servicenow, survey, poll, feedback, employee, candidate,
            applicant, recruiting, people, invite, share link, announcement, discussion, confluence space
        """),
    ),
    Category(
        name="utilities",
        title="Utilities & helpers",
        description="Time, arithmetic, units, weather, maps, travel, and what fits nowhere else.",
        words=_words("""
            time, current time, timezone, time zone, current date, convert time, timer, clock, calculator,
            calculate, arithmetic, math, multiply, divide, square root, equation, evaluate expression,
            unit conversion, convert units, random, random number, dice, uuid, hash, base64, encode, decode,
            qr code, barcode, slug, weather, weather forecast, forecast, temperature, air quality, map,
            geocode, reverse geocode, location, latitude, coordinates, directions, route, distance, place,
            places, nearby, elevation, flight, airport, hotel, trip, travel, train schedule,
            restaurant, recipe, food, nutrition, workout, music, song, playlist, spotify, movie, joke,
            quote of the day, horoscope, trivia, game, light, smart home, thermostat, echo, hello, greet,
            clipboard, ping server, shorten url, currency converter, holiday, astronomy, play music,
            sleep data
        """),
    ),
)  # fmt: skip


def merge_categories(own: Mapping[str, Category]) -> tuple[Category, ...]:
    """Return the built-in categories with an operator's changes, then the operator's own.

    A change replaces the fields of a category that are not empty in it, and adds its words.
    """
    by_name = {category.name: category for category in CATEGORIES}
    for name, change in own.items():
        base = by_name.get(name, Category(name=name, title=name.replace("_", " ").capitalize()))
        by_name[name] = replace(
            base,
            title=change.title or base.title,
            description=change.description or base.description,
            parent=change.parent or base.parent,
            words=tuple(dict.fromkeys((*base.words, *change.words))),
        )
    return tuple(by_name.values())


def is_category_name(name: str) -> bool:
    """Return whether a category may have this name."""
    return _NAME.fullmatch(name) is not None


def check_categories(categories: Sequence[Category]) -> list[str]:
    """Return the faults of categories, one line each: names, parents that do not exist, and cycles."""
    by_name = {category.name: category for category in categories}
    return [fault for category in categories for fault in _faults(category, by_name)]


def _faults(category: Category, by_name: Mapping[str, Category]) -> Iterator[str]:
    name, parent = category.name, category.parent
    if not _NAME.fullmatch(name):
        yield f"{name!r}: a category's name begins with a letter and has at most 40 of a-z, 0-9 and _"
    if parent and parent not in by_name:
        yield f"{name}: its parent {parent!r} is no category{did_you_mean(parent, by_name, lead='; ')}"
    ancestors: list[str] = []
    while parent in by_name and parent not in ancestors:
        ancestors.append(parent)
        parent = by_name[parent].parent
    if name in ancestors:
        yield f"{name}: is above itself ({' > '.join([name, *ancestors[: ancestors.index(name) + 1]])})"


MOST_TAGS: Final = 8
"""The maximum number of tags of a tool."""


def _tags(text: str) -> Mapping[str, Sequence[str]]:
    """Read lines of `tag: word, two words`; a tag's own name counts unless the line begins with `!`."""
    tags: dict[str, Sequence[str]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        tag, _, triggers = line.lstrip("!").partition(":")
        own_words = [] if line.startswith("!") else [tag.replace("_", " ")]
        words = (" ".join(word.split()) for word in triggers.split(","))
        tags[tag] = tuple(dict.fromkeys([*own_words, *filter(None, words)]))
    return MappingProxyType(tags)


TAGS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = MappingProxyType(
    {
        "function": _tags("""
            search: find, query, lookup, look up, discover, grep
            !list: list, enumerate, browse
            !read: read, fetch, retrieve, view, show, describe, get
            create: add, insert, new, make
            update: edit, modify, change, patch, set, rename
            delete: remove, destroy, purge, drop
            !write: write, append, overwrite
            !execute: execute, run, invoke, trigger, launch
            upload: import
            download: export
            copy: duplicate, clone
            move: relocate
            !send: send, reply, forward, publish, post
            notify: notification, reminder, remind
            schedule: booking, appointment
            convert: transform
            extract: parse, ocr
            scrape: crawl, scraping
            !navigate: navigate, click, scroll, hover
            screenshot: capture page, page snapshot
            !translate: translate, translation
            summarize: summarise, summary
            classify: classification, categorize
            compare: diff, comparison
            validate: verify, check, validation
            format: prettify, pretty print
            analyze: analyse, analysis, inspect
            !aggregate: aggregate, statistics, count, group by
            visualize: chart, plot, visualization, diagram
            calculate: compute, calculator, arithmetic
            static_analysis: lint, linter, code quality, complexity, dead code, type check
            code_generation: generate code, scaffold, boilerplate, codegen
            refactoring: refactor, rename symbol, extract method
            code_search: code navigation, find references, find symbol, definition
            code_review: review code, pull request review
            testing: run tests, unit test, test case, test suite
            debugging: debug, debugger, breakpoint, stack trace
            build: compile
            deploy: deployment, rollout, rollback
            monitor: monitoring, metric, metrics, health check, uptime
            logging: log, logs
            backup: restore, snapshot backup
            scale: autoscaling, replica
            authenticate: login, authentication, sign in
            authorize: permission, permissions, grant access, revoke
            encrypt: encryption, decrypt
            vulnerability_scan: vulnerability, vulnerabilities, security scan, cve
            audit: audit log, compliance
            !image_generation: generate image, image generation, text to image
            !speech: text to speech, speech to text, transcribe, tts
            embedding: embeddings, vectorize
            !memory: remember, recall, memory, memories
            planning: plan, thinking, reasoning
        """),
        "language": _tags("""
            python: py file, pytest, pip install
            javascript: js code
            typescript: tsx
            java: java class, maven, gradle
            kotlin:
            scala:
            csharp: c sharp, dotnet
            fsharp:
            cpp: c plus plus, clang
            !c: c code, c language, c source
            !go: golang, go code, go module, go package
            rust: cargo, crates
            ruby: ruby gem
            php: composer package
            !swift: swift code, swift language, swiftui
            objective_c: objc
            !r: r language, rstats, r script
            julia:
            matlab:
            perl:
            lua:
            haskell:
            elixir:
            erlang:
            clojure:
            ocaml:
            zig:
            !dart: dart code, dart language, flutter
            solidity: smart contract
            bash: shell script, shell command
            powershell:
            sql: sql query
            html:
            css: stylesheet
            latex: tex file
            fortran:
            cobol:
            !assembly: disassemble, assembly code, disassembly
        """),
        "framework": _tags("""
            !react: react component, reactjs, react app, react hooks
            react_native:
            nextjs: next js
            !vue: vuejs, vue component, vue js
            nuxt: nuxtjs
            angular: angularjs
            svelte: sveltekit
            !astro: astro site, astro component
            django:
            flask:
            fastapi:
            !rails: ruby on rails
            laravel:
            symfony:
            !spring: spring boot, spring framework, springboot
            !express: expressjs, express js
            nestjs: nest js
            aspnet: asp net
            flutter:
            swiftui:
            electron:
            tailwind: tailwindcss
            bootstrap_css:
            shadcn: shadcn ui
            storybook:
            playwright:
            puppeteer:
            selenium:
            cypress:
            pytest:
            jest:
            junit:
            pandas:
            numpy:
            pytorch: torch
            tensorflow:
            scikit_learn: sklearn
            !transformers: huggingface transformers, hugging face
            langchain:
            llamaindex: llama index
            spark: pyspark
            airflow:
            dbt:
            prisma:
            sqlalchemy:
            !unity: unity editor, unity scene, game object
            !unreal: unreal engine
            godot:
            wordpress: wp
            drupal:
        """),
        "technology": _tags("""
            rest_api: rest endpoint, restful, http request, http api
            graphql:
            grpc: protobuf
            openapi: swagger
            webhook: webhooks
            websocket: websockets
            !mcp: mcp server, model context protocol
            git: commit, branch, rebase, stash, cherry pick
            github: github actions, gist
            gitlab:
            bitbucket:
            docker: dockerfile, docker compose
            kubernetes: kubectl, k8s, pod, pods, helm
            terraform: opentofu
            ansible:
            ci_cd: jenkins, circleci, github actions, ci pipeline, build pipeline, workflow run
            aws: ec2, s3, cloudformation, dynamodb, amazon web services, cloudwatch
            azure: azure devops, entra
            gcp: google cloud, gke, cloud run
            cloudflare:
            vercel:
            !linux: systemd, ubuntu, linux
            windows_os: windows registry
            macos: applescript
            ios: iphone, xcode, ios simulator
            android: adb
            sql: sql query, select statement
            postgresql: postgres, supabase
            mysql: mariadb
            sqlite:
            mongodb: mongo
            redis:
            elasticsearch: opensearch
            bigquery:
            snowflake:
            databricks:
            duckdb:
            neo4j: cypher
            vector_database: vector store, vector search, pinecone, qdrant, chroma, weaviate, milvus
            kafka:
            rabbitmq:
            prometheus: promql
            grafana:
            datadog:
            sentry:
            opentelemetry: otel
            browser: chrome, chromium, firefox
            pdf:
            spreadsheet: excel, xlsx, worksheet, workbook, google sheets
            word_document: docx, google docs
            presentation: pptx, powerpoint, google slides, slide
            markdown:
            json:
            yaml:
            xml:
            csv:
            email: gmail, outlook, smtp, imap, inbox
            calendar: ical, google calendar
            slack:
            discord:
            telegram:
            jira:
            confluence:
            notion:
            linear_app: linear issue
            salesforce:
            hubspot:
            stripe:
            shopify:
            figma:
            oauth: oidc, sso
            llm: language model, gpt, openai, anthropic, ollama
            blockchain: ethereum, bitcoin, smart contract, web3, solana
            maps: geocode, google maps, openstreetmap
            ssh: sftp
            dns: dns record, nameserver
            shell: terminal, command line, bash
            filesystem: file system, directory, folder
        """),
    }
)

_MOST_FAULTS: Final = 20
_ALL: Final = tuple(f"{dimension}:{tag}" for dimension, tags in TAGS.items() for tag in tags)


def normalise_tag(tag: str) -> str | None:
    """Return the tag as `dimension:tag`, or `None` if it is unknown or ambiguous.

    Case, spaces and hyphens do not matter; the dimension may be left out if no other has the same tag.
    """
    normal = ":".join("_".join(part.replace("-", " ").split()) for part in tag.casefold().split(":"))
    if normal in _ALL:
        return normal
    candidates = _bearers(normal)
    return candidates[0] if len(candidates) == 1 else None


def check_tags(tags: Iterable[str]) -> list[str]:
    """Return the faults of tags that a person wrote, one line each, with the nearest that exist.

    To look for near ones takes long: of more than 20 faults, the others are counted in the last line.
    """
    unknown = [tag for tag in tags if normalise_tag(tag) is None]
    more = [f"{len(unknown) - _MOST_FAULTS:,} more tags are unknown"] if len(unknown) > _MOST_FAULTS else []
    return [*map(_fault, unknown[:_MOST_FAULTS]), *more]


def _bearers(bare: str) -> list[str]:
    return [f"{dimension}:{bare}" for dimension, tags in TAGS.items() if bare in tags]


def _fault(tag: str) -> str:
    normal = tag.casefold().strip().replace(" ", "_").replace("-", "_")
    if several := _bearers(normal):
        return f"tag {quote_input(tag)} is not the only one of its name; write {' or '.join(several)}"
    bare = normal.rpartition(":")[2]
    bares = dict.fromkeys(tag.partition(":")[2] for tag in _ALL)
    near = [name for match in near_names(bare, bares) for name in _bearers(match)]
    hint = f"; near it: {', '.join(near)}" if near else f"; the dimensions are {', '.join(TAGS)}"
    return f"tag {quote_input(tag)} is not in the vocabulary{hint}"
